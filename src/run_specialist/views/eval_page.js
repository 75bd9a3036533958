"use strict";
// Optional: without scripts all cases are listed. Adds filters by words and by what changed.
const cases = [...document.querySelectorAll(".case")];
if (cases.length > 1) {
  const add = (parent, name, values) => parent.appendChild(Object.assign(document.createElement(name), values));
  const filters = Object.assign(document.createElement("div"), { className: "filters" });
  document.querySelector("#cases h2").after(filters);
  const labelled = (text, name, values) => add(add(filters, "label", { textContent: text }), name, values);
  const words = labelled("Filter by words", "input", { type: "search" });
  const shown = labelled("Cases", "select", {});
  const KINDS = [
    ["all", () => true],
    ["with a difference", (one) => one.matches(".gain, .loss")],
    ["with a loss", (one) => one.matches(".loss")],
    ["with a run that did not pass", (one) => one.querySelector(".cell .fail") !== null],
  ];
  for (const [name] of KINDS) add(shown, "option", { value: name, textContent: name });
  const count = add(filters, "output", {});
  let texts;
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = KINDS[shown.selectedIndex][1];
    if (wanted.length) texts ??= cases.map((one) => one.textContent.toLowerCase());
    let left = 0;
    cases.forEach((one, at) => {
      one.hidden = !fits(one) || !wanted.every((word) => texts[at].includes(word));
      left += !one.hidden;
    });
    count.textContent = left === cases.length ? "" : `${left} of ${cases.length} shown`;
  };
  words.addEventListener("input", filter);
  shown.addEventListener("change", filter);
  // A browser may restore the values of the controls when the page is opened again.
  addEventListener("pageshow", filter);
}
