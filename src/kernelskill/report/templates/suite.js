"use strict";
(() => {
  const table = document.getElementById("tasks"), body = table.tBodies[0], filters = document.getElementById("filters");
  const rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
  const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function value(row, column, kind) {
    const cell = row.cells[column], written = cell.dataset.value ?? cell.textContent.trim();
    if (kind === "text") return written.toLowerCase();
    return written === "" ? null : Number(written);
  }

  function sort(column, kind, descending) {
    const keyed = rows.map((row, place) => ({ row, place, key: value(row, column, kind) }));
    keyed.sort((a, b) => {
      const missing = (a.key === null || a.key === "") - (b.key === null || b.key === "");
      if (missing) return missing;  // what has no value stays last, whichever way
      const order = kind === "text" ? a.key.localeCompare(b.key) : a.key - b.key;
      return (descending ? -order : order) || a.place - b.place;
    });
    body.append(...keyed.map((item) => item.row));
  }

  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      const kind = button.dataset.sort, before = head.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : kind === "number";  // the largest first; ranks and words from the start
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(column, kind, descending);
    });
  });

  function filter() {
    const wanted = new FormData(filters), words = (wanted.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => text.get(row).includes(word))
        && ["level", "outcome", "work"].every((name) => !wanted.get(name) || row.dataset[name] === wanted.get(name))
        && !(wanted.get("kept") && row.dataset.aside);
      row.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = shown === rows.length ? `${shown} tasks` : `${shown} of ${rows.length} tasks`;
  }

  filters.addEventListener("input", filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#task-']");
    const row = link && document.getElementById(link.getAttribute("href").slice(1));
    if (row && row.hidden) { filters.reset(); filter(); }
  });
  filter();
})();
