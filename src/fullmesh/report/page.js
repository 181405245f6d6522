(() => {
  "use strict";
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    const code = button.parentElement.querySelector("code");
    const said = (word) => {
      button.textContent = word;
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    };
    const selected = () => {
      const range = document.createRange();
      range.selectNodeContents(code);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand("copy");
    };
    button.addEventListener("click", () => {
      if (!navigator.clipboard) {
        said(selected() ? "Copied" : "Selected");
        return;
      }
      navigator.clipboard.writeText(code.textContent).then(
        () => said("Copied"),
        () => said(selected() ? "Copied" : "Selected"),
      );
    });
  }

  // Paper has no folded parts.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });

  const held = document.getElementById("data");
  const output = document.querySelector(".detail");
  if (!held || !output) return;
  const { nodes, words, rows } = JSON.parse(held.textContent);
  const hint = output.querySelector(".hint");
  if (hint) hint.hidden = false;
  const size = nodes.length;
  let row = 0;
  let column = 1;

  const describe = () => {
    const link = rows[row][column];
    if (!link) return `${nodes[row]}: itself`;
    const [word, rtt, connect, rate, loss, ports] = link;
    const parts = [`${nodes[row]} → ${nodes[column]}: ${words[word]}`];
    if (rtt !== null && rtt !== undefined) parts.push(`round trip ${rtt} ms`);
    if (connect !== null && connect !== undefined) parts.push(`handshake ${connect} ms`);
    if (rate !== null && rate !== undefined) parts.push(`${rate} Gbit/s`);
    if (loss) parts.push(`${(100 * loss).toPrecision(2)} % sent again`);
    if (ports) parts.push(`ports ${ports.join(", ")}`);
    return parts.join(" · ");
  };

  const show = () => {
    output.textContent = describe();
    for (const cross of document.querySelectorAll(".cross")) {
      const [across, down, spot] = cross.children;
      across.setAttribute("y", row);
      down.setAttribute("x", column);
      spot.setAttribute("x", column);
      spot.setAttribute("y", row);
      cross.setAttribute("visibility", "visible");
    }
  };

  const broken = () => {
    const open = words.indexOf("open");
    for (let step = 1; step <= size * size; step += 1) {
      const at = (row * size + column + step) % (size * size);
      const link = rows[Math.floor(at / size)][at % size];
      if (link && link[0] !== open) {
        row = Math.floor(at / size);
        column = at % size;
        return;
      }
    }
  };

  const moves = {
    ArrowUp: () => { row = Math.max(0, row - 1); },
    ArrowDown: () => { row = Math.min(size - 1, row + 1); },
    ArrowLeft: () => { column = Math.max(0, column - 1); },
    ArrowRight: () => { column = Math.min(size - 1, column + 1); },
    Home: () => { column = 0; },
    End: () => { column = size - 1; },
    n: broken,
  };

  for (const figure of document.querySelectorAll(".heat")) {
    const frame = figure.querySelector(".frame");
    const svg = frame.querySelector("svg");
    const gutter = Number(figure.dataset.gutter);
    frame.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const scale = Number(figure.dataset.side) / box.width;
      const x = Math.floor((event.clientX - box.left) * scale - gutter);
      const y = Math.floor((event.clientY - box.top) * scale - gutter);
      if (x < 0 || y < 0 || x >= size || y >= size) return;
      row = y;
      column = x;
      show();
    });
    frame.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      move();
      show();
    });
  }
})();
