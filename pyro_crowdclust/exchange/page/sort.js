"use strict";
// Sorting items into groups, one page after the other. What was sorted is an array of places for
// every page: null is not sorted yet, 0 is "can't tell", 1, 2, ... are groups.

const data = JSON.parse(document.getElementById("data").textContent);
const NOT_SORTED = null, CANNOT_TELL = 0;
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
const targetsUpTo = (last) => [...Array(last).keys()].map((n) => n + 1).concat(CANNOT_TELL);
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
  ({ [NOT_SORTED]: "To sort", [CANNOT_TELL]: "Can’t tell" })[place] ?? `Group ${place}`;

function makeItem(item, index) {
  const element = make("button", { type: "button", class: "item", "aria-pressed": "false" });
  if (item.image) {
    const image = make("img", { src: item.image, alt: item.text ? "" : nameOf(index) });
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
  const order = targetsUpTo(last);
  for (const [place, element] of places) {
    if (place === NOT_SORTED || order.includes(place)) continue;
    element.remove();
    places.delete(place);
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
  const buttons = targetsUpTo(last).map((place) => {
    const label = place === last ? "New group" : titleOf(place);
    const text = place === last ? "New" : place || label;
    const button = make("button", { type: "button", "aria-label": label }, String(text));
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

const say = (text) => { byId("status").textContent = text; };

// What is done

function move(indices, place) {
  countTime();
  const own = sorted().places;
  for (const index of indices) own[index] = place;
  picked.clear();
  const left = own.filter((one) => one === NOT_SORTED).length;
  const what = indices.length === 1 ? nameOf(indices[0]) : `${indices.length} items`;
  const end = state.pages.every(isDone) ? "All is sorted: save your answers." : "Page sorted.";
  const rest = left ? `${left} left.` : end;
  say(`${what}: ${titleOf(place).toLowerCase()}. ${rest}`);
  const order = elements.map((_, step) => (current + step) % elements.length);
  current = order.find((index) => own[index] === NOT_SORTED) ?? current;
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
  if (!state.pages.some(isDone)) { say("No page is sorted yet: there is nothing to save."); return; }
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
  const what = missing === 1 ? "1 page is" : missing ? `${missing} pages are` : "";
  say(what ? `Saved. ${what} not sorted yet and not in the file.` : "Saved: all pages are in it.");
}

// A cell of a table; a spreadsheet would run a text that begins like a formula.
function cell(value) {
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = "'" + text;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
