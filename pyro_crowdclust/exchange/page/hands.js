// What hands do to the page of sort.js: mouse, touch and keys.

const HOLD = 220;             // milliseconds that a finger rests before it drags, not scrolls
const DRAG = 6;               // pixels that a mouse moves before it drags
const EDGE = 60;              // pixels from the edge at which a drag scrolls

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
  const { ghost, x, y, indices } = drag;
  clearTimeout(drag.timer);
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

const placeOf = (element) =>
  element.id === "tray" ? NOT_SORTED : Number(element.dataset.place);

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
const hold = (event) => { if (drag?.ghost) event.preventDefault(); };
document.addEventListener("touchmove", hold, { passive: false });
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
  const newGroup = numGroups() + 1;
  const keys = { n: newGroup, 0: CANNOT_TELL, backspace: NOT_SORTED, delete: NOT_SORTED };
  for (let n = 1; n <= newGroup && n < 10; n++) keys[n] = n;
  const place = keys[event.key.toLowerCase()];
  if (picked.size === 0 && !onItem) return;
  if (/^[1-9]$/.test(event.key) && place === undefined) say(`There is no group ${event.key}.`);
  if (place === undefined) return;
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
