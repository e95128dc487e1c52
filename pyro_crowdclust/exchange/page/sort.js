"use strict";
// Sorting items into groups, one page after the other. What was sorted is an array of places for
// every page: null is not sorted yet, 0 is "can't tell", 1, 2, ... are groups.

const data = JSON.parse(document.getElementById("data").textContent);
const NOT_SORTED = null, CANNOT_TELL = 0;
const HOLD = 220;             // milliseconds that a finger rests before it drags and does not scroll
const DRAG = 6;               // pixels that a mouse moves before it drags
const EDGE = 60;              // pixels from the edge at which a drag scrolls
const LONGEST_PAUSE = 60;     // seconds that count as working on a page

const byId = (id) => document.getElementById(id);
const state = restored();
let elements = [];            // of the items of this page, in the order of the question
let places = new Map();       // the element of every place: tray, "can't tell", groups
let picked = new Set();       // items that go to the group that is tapped next
let current = 0;              // the item that has, or had, the focus
let lastAction = performance.now();

// What is kept

function fresh() {
  return {
    worker: data.worker, page: 0,
    pages: data.pages.map((page) => ({ places: page.items.map(() => NOT_SORTED), seconds: 0 })),
  };
}

function restored() {
  try {
    return { ...fresh(), ...JSON.parse(localStorage.getItem("crowdclust-" + data.key)) };
  } catch {
    return fresh();
  }
}

function keep() {
  try {
    localStorage.setItem("crowdclust-" + data.key, JSON.stringify(state));
  } catch {
    say("This browser keeps nothing: save your answers before you close the page.");
  }
}

function countTime() {
  const now = performance.now();
  sorted().seconds += Math.min((now - lastAction) / 1000, LONGEST_PAUSE);
  lastAction = now;
}

const sorted = () => state.pages[state.page];
const isDone = (page) => page.places.every((place) => place !== NOT_SORTED);
const numGroups = () => Math.max(0, ...sorted().places);

// What is seen

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function nameOf(index) {
  const item = data.pages[state.page].items[index];
  return item.text ? item.text.slice(0, 40) : `picture ${index + 1}`;
}

const titleOf = (place) =>
  place === NOT_SORTED ? "To sort" : place === CANNOT_TELL ? "Can’t tell" : `Group ${place}`;

function makeItem(item, index) {
  const element = make("button", { type: "button", class: "item", "aria-pressed": "false" });
  if (item.image) {
    const image = make("img", { src: item.image, alt: item.text ? "" : nameOf(index) });
    image.draggable = false;
    // Small pictures are of pixels, which are to be seen.
    image.onload = () => image.classList.toggle("pixels", image.naturalWidth < 64);
    element.append(image);
  }
  if (item.text) element.append(make("span", {}, item.text));
  element.dataset.index = index;
  return element;
}

function makeGroup(place) {
  const title = make("button", { type: "button" }, titleOf(place));
  const count = make("span", { class: "count" });
  const element = make(
    "section", { class: "place", "aria-label": titleOf(place) },
    make("h2", {}, title, count), make("div", { class: "items" }));
  element.classList.toggle("cannot-tell", place === CANNOT_TELL);
  element.dataset.place = place;
  return element;
}

function openPage() {
  elements = data.pages[state.page].items.map(makeItem);
  picked.clear();
  byId("groups").replaceChildren();
  places = new Map([[NOT_SORTED, byId("tray")]]);
  current = Math.max(0, sorted().places.indexOf(NOT_SORTED));
  lastAction = performance.now();
  show();
  window.scrollTo(0, 0);
}

function show() {
  const last = numGroups() + 1;
  const order = [...Array(last).keys()].map((n) => n + 1).concat(CANNOT_TELL);
  for (const [place, element] of places) {
    if (place !== NOT_SORTED && !order.includes(place)) { element.remove(); places.delete(place); }
  }
  for (const place of order) {
    if (!places.has(place)) places.set(place, makeGroup(place));
    byId("groups").append(places.get(place));
  }
  elements.forEach((element, index) => {
    const box = places.get(sorted().places[index]).querySelector(".items");
    if (element.parentNode !== box) box.append(element);
    element.setAttribute("aria-pressed", picked.has(index));
    element.tabIndex = index === current ? 0 : -1;
  });
  for (const [place, element] of places) {
    const count = element.querySelectorAll(".item").length;
    element.classList.toggle("is-empty", count === 0);
    const number = element.querySelector(".count");
    if (number) number.textContent = count || "";
    if (place === NOT_SORTED) continue;
    const title = place === last ? "New group" : titleOf(place);
    element.querySelector("h2 button").textContent = title;
    element.setAttribute("aria-label", title);
  }
  showBar(last);
  showProgress();
}

function showBar(last) {
  const targets = [...Array(last).keys()].map((n) => [n + 1, n + 1 === last ? "New" : String(n + 1)]);
  const buttons = [...targets, [CANNOT_TELL, "Can’t tell"]].map(([place, text]) => {
    const label = place === last ? "New group" : titleOf(place);
    const button = make("button", { type: "button", "aria-label": label }, text);
    button.dataset.place = place;
    button.disabled = picked.size === 0;
    button.onclick = () => movePicked(place);
    return button;
  });
  const text = picked.size ? `${picked.size} picked, into` : "Pick items, then a group";
  byId("bar").replaceChildren(make("span", {}, text), ...buttons);
}

function showProgress() {
  const done = state.pages.filter(isDone).length;
  const isLast = state.page === data.pages.length - 1;
  byId("where").textContent = `Page ${state.page + 1} of ${data.pages.length}`;
  byId("progress").max = data.pages.length;
  byId("progress").value = done;
  byId("back").disabled = state.page === 0;
  byId("next").disabled = isLast;
  byId("next").classList.toggle("primary", isDone(sorted()) && !isLast);
  byId("save").classList.toggle("primary", done === data.pages.length);
}

function say(text) {
  byId("status").textContent = text;
}

// What is done

function move(indices, place) {
  countTime();
  const own = sorted().places;
  for (const index of indices) own[index] = place;
  picked.clear();
  const left = own.filter((one) => one === NOT_SORTED).length;
  const what = indices.length === 1 ? nameOf(indices[0]) : `${indices.length} items`;
  const rest = left ? `${left} left.` : state.page === data.pages.length - 1
    ? "This page is sorted. Save your answers." : "This page is sorted.";
  say(`${what}: ${titleOf(place).toLowerCase()}. ${rest}`);
  const after = (index) => own[index] === NOT_SORTED;
  const order = elements.map((_, step) => (current + step) % elements.length);
  current = order.find(after) ?? current;
  keep();
  show();
}

function movePicked(place) {
  const hadFocus = document.activeElement;
  if (picked.size === 0) { say("Pick items first."); return; }
  move([...picked].sort((a, b) => a - b), place);
  if (!hadFocus?.isConnected) elements[current].focus({ preventScroll: true });
}

function pick(index) {
  if (!picked.delete(index)) picked.add(index);
  current = index;
  show();
}

function turn(step) {
  countTime();
  state.page = Math.min(Math.max(state.page + step, 0), data.pages.length - 1);
  keep();
  openPage();
  say("");
  elements[current].focus({ preventScroll: true });
}

function save() {
  countTime();
  const worker = state.worker.trim();
  if (!worker) { say("Fill in your name first."); byId("worker").focus(); return; }
  const rows = [["page", "item", "worker", "group", "seconds"]];
  data.pages.forEach((page, n) => {
    const { places: own, seconds } = state.pages[n];
    if (!isDone(state.pages[n])) return;
    page.items.forEach((item, i) => {
      const group = own[i] === CANNOT_TELL ? "" : own[i];
      rows.push([page.page, item.item, worker, group, seconds.toFixed(1)]);
    });
  });
  const text = rows.map((row) => row.map(cell).join(",") + "\n").join("");
  const link = make("a", { download: `answers-${worker.replace(/[^\p{L}\p{N}]+/gu, "-")}.csv` });
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  const missing = state.pages.filter((page) => !isDone(page)).length;
  const pages = missing === 1 ? "page is" : "pages are";
  say(missing ? `Saved. ${missing} ${pages} not sorted yet and not in the file.` : "Saved: all pages are in the file.");
}

// A cell of a table; a spreadsheet would run a text that begins like a formula.
function cell(value) {
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = "'" + text;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Mouse and touch

let drag = null;              // { indices, ghost } while something is dragged, and before it starts

function begin(event, element) {
  const index = Number(element.dataset.index);
  const indices = picked.has(index) ? [...picked].sort((a, b) => a - b) : [index];
  drag = { indices, element, x: event.clientX, y: event.clientY, ghost: null, timer: 0 };
  if (event.pointerType !== "mouse") drag.timer = setTimeout(lift, HOLD);
}

function lift() {
  const { element, indices } = drag;
  const box = element.getBoundingClientRect();
  const ghost = element.cloneNode(true);
  ghost.classList.add("ghost");
  ghost.style.width = `${box.width}px`;
  if (indices.length > 1) ghost.dataset.count = indices.length;
  document.body.append(ghost);
  for (const index of indices) elements[index].classList.add("lifted");
  drag.ghost = ghost;
  picked = new Set(indices);
  show();
  follow(drag);
}

function follow({ clientX = drag.x, clientY = drag.y }) {
  drag.x = clientX;
  drag.y = clientY;
  drag.ghost.style.transform = `translate(${clientX}px, ${clientY}px) translate(-50%, -60%)`;
  highlight(placeAt(clientX, clientY));
  const bottom = document.querySelector("footer").getBoundingClientRect().top;
  if (clientY < EDGE) window.scrollBy(0, -14);
  if (clientY > bottom - EDGE && clientY < bottom) window.scrollBy(0, 14);
}

// Groups, and the buttons of the bar, which are always in sight.
const TARGETS = "#tray, [data-place]";
const placeAt = (x, y) => document.elementFromPoint(x, y)?.closest(TARGETS);

function highlight(over) {
  for (const element of document.querySelectorAll(TARGETS)) {
    element.classList.toggle("over", element === over);
  }
}

function drop() {
  if (!drag) return null;
  const { ghost, timer, x, y, indices } = drag;
  clearTimeout(timer);
  drag = null;
  if (!ghost) return null;
  const over = placeAt(x, y);
  ghost.remove();
  for (const element of elements) element.classList.remove("lifted");
  highlight(null);
  picked.clear();
  show();
  return over && { indices, place: placeOf(over) };
}

function placeOf(element) {
  return element.id === "tray" ? NOT_SORTED : Number(element.dataset.place);
}

document.addEventListener("pointerdown", (event) => {
  const element = event.target.closest?.("main .item");
  if (element && event.isPrimary && event.button === 0) begin(event, element);
});
document.addEventListener("pointermove", (event) => {
  if (!drag || !event.isPrimary) return;
  const far = Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > DRAG;
  if (drag.ghost) follow(event);
  else if (far && event.pointerType === "mouse") { lift(); follow(event); }
  else if (far) drop();       // a finger that moves at once scrolls
});
let dragged = false;          // the click that ends a drag picks nothing
document.addEventListener("pointerup", () => {
  dragged = Boolean(drag?.ghost);
  const dropped = drop();
  if (dropped) move(dropped.indices, dropped.place);
});
document.addEventListener("pointercancel", drop);
document.addEventListener("touchmove", (event) => { if (drag?.ghost) event.preventDefault(); }, { passive: false });
document.addEventListener("dragstart", (event) => event.preventDefault());
document.addEventListener("contextmenu", (event) => {
  if (event.target.closest?.(".item")) event.preventDefault();
});
document.querySelector("main").addEventListener("click", (event) => {
  const wasDragged = dragged;
  dragged = false;
  if (wasDragged) return;
  const item = event.target.closest(".item");
  if (item) return pick(Number(item.dataset.index));
  const place = event.target.closest(".place");
  if (place && picked.size) movePicked(placeOf(place));
});

// Keys

function step(key) {
  const all = [...document.querySelectorAll("main .item")];
  const here = elements[current];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    return all[all.indexOf(here) + (key === "ArrowRight" ? 1 : -1)];
  }
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = middle(here);
  const sign = key === "ArrowDown" ? 1 : -1;
  const distance = (element) => Math.hypot(middle(element)[0] - x, 2 * (middle(element)[1] - y));
  const beyond = all.filter((element) => sign * (middle(element)[1] - y) > 4);
  return beyond.sort((a, b) => distance(a) - distance(b))[0];
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { drop(); picked.clear(); show(); return; }
  const onItem = event.target.matches(".item");
  if (event.key.startsWith("Arrow")) {
    const next = onItem ? step(event.key) : elements[current];
    if (!next) return;
    event.preventDefault();
    current = Number(next.dataset.index);
    show();
    next.focus();
    return;
  }
  if (event.key === "Enter" && isDone(sorted()) && !event.target.matches("footer button, h2 button")) {
    event.preventDefault();
    if (state.page < data.pages.length - 1) turn(1);
    else byId("save").focus();
    return;
  }
  const keys = { n: numGroups() + 1, 0: CANNOT_TELL, backspace: NOT_SORTED, delete: NOT_SORTED };
  const key = event.key.toLowerCase();
  const place = key in keys ? keys[key] : /^[1-9]$/.test(key) ? Math.min(Number(key), numGroups() + 1) : undefined;
  if (place === undefined || (picked.size === 0 && !onItem)) return;
  event.preventDefault();
  move(picked.size ? [...picked].sort((a, b) => a - b) : [current], place);
  elements[current].focus({ preventScroll: false });
});

document.addEventListener("focusin", (event) => {
  if (!event.target.matches("main .item")) return;
  current = Number(event.target.dataset.index);
  elements.forEach((element, index) => { element.tabIndex = index === current ? 0 : -1; });
});

byId("worker").value = state.worker;
byId("worker").oninput = () => { state.worker = byId("worker").value; keep(); };
byId("back").onclick = () => turn(-1);
byId("next").onclick = () => turn(1);
byId("save").onclick = save;
byId("restart").onclick = () => {
  if (!confirm("Forget all that was sorted on this page in this browser?")) return;
  Object.assign(state, fresh());
  byId("worker").value = state.worker;
  keep();
  openPage();
};

const firstOpen = state.pages.findIndex((page) => !isDone(page));
state.page = firstOpen < 0 ? state.page : firstOpen;
byId("help").open = firstOpen === 0 && !sorted().places.some((place) => place !== NOT_SORTED);
openPage();
