"use strict";
// Optional: without scripts the table is complete, newest first. Adds filters, and a button to sort by each column.
const body = document.querySelector("tbody");
if (body) {
  const rows = [...body.rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const add = (parent, name, values) => parent.appendChild(Object.assign(document.createElement(name), values));
  const filters = add(document.querySelector("header"), "div", { className: "filters" });
  const labelled = (text, name, values) => add(add(filters, "label", { textContent: text }), name, values);
  const words = labelled("Filter by words", "input", { type: "search" });
  const status = labelled("Status", "select", {});
  const STATUS = 3;
  const statuses = new Set(rows.map((row) => row.cells[STATUS].textContent));
  for (const one of ["any", ...[...statuses].sort()]) add(status, "option", { value: one, textContent: one });
  const count = add(filters, "output", {});
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden =
        (status.value !== "any" && row.cells[STATUS].textContent !== status.value) ||
        !wanted.every((word) => texts[at].includes(word));
      shown += !row.hidden;
    });
    count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
  };
  words.addEventListener("input", filter);
  status.addEventListener("change", filter);
  // A browser may restore the values of the controls when the page is opened again.
  addEventListener("pageshow", filter);

  const heads = [...document.querySelectorAll("thead th")];
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.v ?? cell.textContent;
    return value === "" || Number.isNaN(Number(value)) ? value.toLowerCase() : Number(value);
  };
  heads.forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const keyed = rows.map((row) => [key(row, column), row]);
      keyed.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1));
      if (!up) keyed.reverse();
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
