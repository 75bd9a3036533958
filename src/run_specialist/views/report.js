"use strict";
// Optional: opens the target of a link if the browser does not, and adds a button that opens all calls.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.tagName === "DETAILS") target.open = true;
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  target.scrollIntoView({ block: target.tagName === "MARK" ? "center" : "start" });
  if (target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", reveal);

const calls = [...document.querySelectorAll("#calls details")];
if (calls.length > 1) {
  const button = document.createElement("button");
  button.type = "button";
  const name = () => {
    button.textContent = calls.every((one) => one.open) ? "Close all" : "Open all";
  };
  button.addEventListener("click", () => {
    const open = !calls.every((one) => one.open);
    for (const one of calls) one.open = open;
    name();
  });
  name();
  document.getElementById("calls-head").after(button);
}
