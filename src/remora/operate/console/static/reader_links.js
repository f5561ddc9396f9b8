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
};

export const itemLink = (source, id) => `read/${encodeURIComponent(source)}/item/${id}`;

export function counted(source, number, text) {
  if (!COUNTED[number]) return element("span", text);
  return linked(`read/${encodeURIComponent(source)}/${COUNTED[number]}`, text);
}

export function linked(address, text) {
  const link = element("a", text);
  link.href = address;
  return link;
}
