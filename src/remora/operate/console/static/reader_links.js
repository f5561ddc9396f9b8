// Where in the reader is what a number counts? The same addresses as in reader/links.py, relative to the status page.
import { element } from "./words.js";

export const COUNTED = {
  settled: "newest",
  newest: "newest",
  changed: "changes",
  owed: "owed",
  leased: "owed",
  dead: "dead",
  absent: "absent",
  gone: "gone",
  pending: "waiting",
  announced: "waiting",
};

export const itemLink = (source, id) => `read/${encodeURIComponent(source)}/item/${id}`;

export const countedAt = (source, number) => `read/${encodeURIComponent(source)}/${COUNTED[number]}`;

export const counted = (source, number, text) => linked(countedAt(source, number), text);

export function linked(address, text) {
  const link = element("a", text);
  link.href = address;
  return link;
}
