"""Script of the fleet page: sorts and filters rows that are already there. It builds no markup from any text."""

FLEET_JS = """
"use strict";
(() => {
  const table = document.getElementById("fleet");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows).filter((row) => row.dataset.i !== undefined);
  const none = body.querySelector("tr.none");
  const points = new Map(Array.from(document.querySelectorAll(".point"), (p) => [p.dataset.i, p]));
  const search = document.getElementById("search");
  const pool = document.getElementById("pool");
  const boxes = Array.from(document.querySelectorAll("input[name=action]"));
  const status = document.getElementById("status");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const heads = Array.from(table.tHead.rows[0].cells);

  const filter = () => {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const text = texts.get(row);
      const isShown = wanted.has(row.dataset.action) && (pool.value === "" || pool.value === row.dataset.pool)
        && words.every((word) => text.includes(word));
      row.hidden = !isShown;
      shown += isShown ? 1 : 0;
      const point = points.get(row.dataset.i);
      if (point) point.classList.toggle("out", !isShown);
    }
    none.hidden = shown > 0;
    status.textContent = shown + " of " + rows.length + " adapters shown";
  };

  // What is missing comes last whichever way the rest is sorted.
  const compare = (a, b, sign, isNumber) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    if (isNumber) return sign * (Number(a) - Number(b));
    return sign * a.localeCompare(b, undefined, { numeric: true });
  };
  const sort = (column) => {
    const head = heads[column];
    const isDescending = head.getAttribute("aria-sort") === "ascending";
    const sign = isDescending ? -1 : 1;
    const isNumber = head.dataset.kind === "number";
    const value = (row) => row.cells[column].dataset.v ?? "";
    rows.sort((a, b) => compare(value(a), value(b), sign, isNumber) || a.dataset.i - b.dataset.i);
    body.append(...rows, none);
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  };

  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sort(column));
  });
  for (const field of [search, pool, ...boxes]) field.addEventListener("input", filter);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
  filter();
})();
"""
