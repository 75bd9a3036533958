(() => {
  const sheet = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    sheet.clearRect(0, 0, 1, 1);
    sheet.fillStyle = colour;
    sheet.fillRect(0, 0, 1, 1);
    return [...sheet.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const linear = (one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, two) => {
    const [low, high] = [light(one), light(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgb(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return rgb("Canvas");
  };
  const bands = (chart) => [...chart.querySelectorAll(":scope > .band")].map((one) => rgb(getComputedStyle(one).fill));
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const svg = element.closest("svg");
    const colour = rgb(svg ? style.fill : style.color);
    const under = [behind(element), ...(svg ? bands(svg) : [])];
    for (const one of under) {
      const key = `${element.tagName}.${element.className.baseVal ?? element.className} ${colour} on ${one}`;
      found[key] = ratio(colour, one);
    }
  }
  for (const shape of document.querySelectorAll("svg rect:not(.band), svg path.line")) {
    const style = getComputedStyle(shape);
    const colour = rgb(shape.tagName === "rect" ? style.fill : style.stroke);
    // The lines of the chart stand in a box of their own on the bands; shapes need less than text, 3 in place of 4.5.
    for (const one of [behind(shape), ...bands(shape.ownerSVGElement.parentElement)]) {
      found[`${shape.tagName}.${shape.className.baseVal} ${colour} on ${one}`] = ratio(colour, one) * 1.5;
    }
  }
  return found;
})()
