"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];
  const sort = (head, column) => {
    const up = head.getAttribute("aria-sort") === "descending" || (column === 0 && head.getAttribute("aria-sort") === "none");
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => column === 0 ? row.cells[0].textContent : Number(row.cells[column].dataset.value.replace("inf", "Infinity"));
    const compare = (a, b) => column === 0
      ? a.localeCompare(b, undefined, { numeric: true })
      : (Number.isNaN(a) ? (Number.isNaN(b) ? 0 : -1) : Number.isNaN(b) ? 1 : a < b ? -1 : a > b ? 1 : 0);
    const rows = Array.from(body.rows, (row) => ({ row, key: key(row) }));
    rows.sort((a, b) => (up ? 1 : -1) * compare(a.key, b.key));
    body.append(...rows.map((item) => item.row));
  };
  heads.forEach((head, column) => {
    head.addEventListener("click", () => sort(head, column));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(head, column);
      }
    });
  });
}
const shown = 25;
for (const table of document.querySelectorAll("table.sortable")) {
  const count = table.tBodies[0].rows.length;
  if (count > shown) {
    table.classList.add("cut");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    button.textContent = `Show all ${count} rows`;
    button.addEventListener("click", () => {
      table.classList.remove("cut");
      button.remove();
    });
    table.parentElement.after(button);
  }
}
const hint = () => {
  for (const region of document.querySelectorAll(".scroll")) {
    let next = region.nextElementSibling;
    while (!next.classList.contains("hint")) next = next.nextElementSibling;
    next.hidden = region.scrollWidth <= region.clientWidth + 1;
  }
};
window.addEventListener("resize", hint);
hint();
for (const button of document.querySelectorAll("button.save")) {
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.from).textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = button.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
