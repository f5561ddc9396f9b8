// Can everybody use the page? A small audit: names, labels, landmarks, headings, contrast. Returns what is wrong, in words.
() => {
  const findings = [];
  const find = (selector) => [...document.querySelectorAll(selector)];
  const shown = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && node.getClientRects().length > 0;
  const where = (node) => `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ""}${node.getAttribute("class") ? `.${node.getAttribute("class").split(" ").join(".")}` : ""} "${(node.textContent || "").trim().slice(0, 30)}"`;
  const labelled = (node) => (node.getAttribute("aria-labelledby") || "").split(" ").map((id) => id && document.getElementById(id)?.textContent).join(" ").trim();
  const nameOf = (node) => node.getAttribute("aria-label") || labelled(node) || node.textContent.trim() || node.getAttribute("title") || "";

  // names and labels
  for (const node of find("button, a[href], summary, dialog, [role=region], [role=group]")) if (!nameOf(node)) findings.push(`no name: ${where(node)}`);
  for (const node of find("svg, img")) {
    if (node.getAttribute("aria-hidden") === "true" || !shown(node)) continue;
    if (node.getAttribute("role") !== "img" || !node.getAttribute("aria-label")) findings.push(`picture without words: ${where(node)}`);
  }
  for (const node of find("[aria-labelledby]")) if (!labelled(node)) findings.push(`label points nowhere: ${where(node)}`);
  const ids = find("[id]").map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) findings.push(`id twice: ${id}`);
  for (const node of find("[tabindex]")) if (Number(node.getAttribute("tabindex")) > 0) findings.push(`own tab order: ${where(node)}`);
  for (const node of find("[aria-hidden=true]")) if (node.querySelector("button, a, [tabindex='0']")) findings.push(`hidden but reachable: ${where(node)}`);

  // landmarks and headings
  if (!document.documentElement.lang) findings.push("the page has no language");
  if (!document.title) findings.push("the page has no title");
  for (const name of ["main", "header", "footer", "h1"]) if (find(name).length !== 1) findings.push(`${find(name).length} ${name}`);
  let level = 0;
  for (const node of find("h1, h2, h3, h4").filter(shown)) {
    const next = Number(node.tagName[1]);
    if (next > level + 1) findings.push(`heading skips a level: ${where(node)}`);
    level = next;
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (walker.currentNode.textContent.trim() && !node.closest("script, noscript, template, title, .unseen, .skip") && shown(node)) texts.push(node);
  }
  for (const node of new Set(texts)) if (!node.closest("header, main, footer, dialog, nav")) findings.push(`outside every landmark: ${where(node)}`);

  // tables, lists and live regions
  for (const table of find("table")) for (const head of table.querySelectorAll("th")) if (!head.scope || !head.textContent.trim()) findings.push(`column without a name: ${where(head)}`);
  for (const list of find("ul, ol")) for (const child of list.children) if (child.tagName !== "LI") findings.push(`not an item: ${where(child)}`);
  for (const list of find("dl")) for (const row of list.children) if (row.tagName !== "DIV" || row.children.length !== 2) findings.push(`not a pair: ${where(row)}`);
  const live = find("[aria-live], [role=status], [role=alert]");
  if (live.length !== 1 || live[0].getAttribute("aria-live") !== "polite") findings.push(`${live.length} live regions`);

  // contrast: AA, 4.5 for text, 3 for large text
  const parse = (color) => {
    const found = color.match(/[\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const over = (front, back) => front.rgb.map((value, index) => value * front.alpha + back[index] * (1 - front.alpha));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.push(parse(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  for (const node of new Set(texts)) {
    if (node.matches(":disabled")) continue;
    const style = getComputedStyle(node);
    const below = ground(node);
    const front = parse(node instanceof SVGElement ? style.fill : style.color);
    for (let each = node; each; each = each.parentElement) front.alpha *= each.matches("#connection") ? 1 : Number(getComputedStyle(each).opacity);
    const [one, other] = [light(over(front, below)), light(below)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < needed) findings.push(`contrast ${ratio.toFixed(2)}: ${where(node)}`);
  }

  // nothing sticks out
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) findings.push(`the page is ${wide} px too wide`);
  return findings;
}
