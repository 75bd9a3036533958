"use strict";
// Optional: without scripts the table is complete. Opens the answer that a link leads to, and adds two filters.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const row = target.closest("tr");
  if (row?.hidden) clear();
  target.closest("details")?.setAttribute("open", "");
  (row ?? target).scrollIntoView({ block: "start" });
  if (target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
};

const items = document.getElementById("items");
const portions = [...document.querySelectorAll(".portion")].map((one) => [one, [...one.querySelectorAll("tbody tr")]]);
const rows = portions.flatMap(([, some]) => some);
let clear = () => {};
if (rows.length > 1) {
  const add = (parent, name, values) => parent.appendChild(Object.assign(document.createElement(name), values));
  const filters = Object.assign(document.createElement("div"), { className: "filters" });
  items.querySelector("h2").after(filters);
  const labelled = (text, name, values) => add(add(filters, "label", { textContent: text }), name, values);
  const words = labelled("Filter by words", "input", { type: "search" });
  const status = labelled("Status", "select", {});
  const STATUS = 2;
  const statuses = rows.map((row) => row.cells[STATUS].textContent);
  for (const one of ["any", ...new Set(statuses)]) add(status, "option", { value: one, textContent: one });
  const count = add(filters, "output", {});
  let texts;
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length) texts ??= rows.map((row) => row.textContent.toLowerCase());
    let at = 0;
    let shown = 0;
    let first = true;
    for (const [portion, some] of portions) {
      let any = false;
      for (const row of some) {
        const fits =
          (status.value === "any" || statuses[at] === status.value) && wanted.every((word) => texts[at].includes(word));
        if (row.hidden === fits) row.hidden = !fits;
        any ||= fits;
        shown += fits;
        at += 1;
      }
      portion.hidden = !any;
      portion.classList.toggle("first", any && first);
      first &&= !any;
    }
    items.classList.toggle("filtered", shown < rows.length);
    count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
  };
  clear = () => {
    words.value = "";
    status.value = "any";
    filter();
  };
  words.addEventListener("input", filter);
  status.addEventListener("change", filter);
  // A browser may restore the values of the controls when the page is opened again.
  addEventListener("pageshow", () => (words.value || status.value !== "any") && filter());
}
addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", reveal);
