// Elements, made and patched. Words from the cluster become text nodes, never markup.

/** An element with a class, attributes, and children: nodes or words. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** As `make`, of SVG. */
export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Let an element hold these words; nothing is touched that is so already. */
export function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/** Let an attribute be this, or not there (null). */
export function set(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Let a custom property or a style be this: by the object model, as the page's policy forbids style attributes. */
export function style(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

/** Words for who listens, not for who looks. */
export function unseen(words) {
  return make("span", { class: "unseen" }, words);
}

export const byId = (id) => document.getElementById(id);

/** Order of names as people count: n2 before n10. */
export const order = new Intl.Collator("en", { numeric: true }).compare;
