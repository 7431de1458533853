// Keyboard, live tail, and small things that need a script. Pages work without it.
"use strict";
(() => {
  const goto = { o: "/", n: "/nodes", t: "/topics", g: "/groups", x: "/transactions", m: "/moves", q: "/quotas", s: "/streams", a: "/acls", e: "/events" };
  let prefix = 0;
  const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;
  const rows = () => [...document.querySelectorAll("table[data-rows] tbody a[data-open]")];

  function move(step) {
    const links = rows();
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1);
    links[next].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const follows = Date.now() - prefix < 1500;
    prefix = 0;
    if (follows && goto[event.key]) {
      event.preventDefault();
      location.assign(goto[event.key]);
    } else if (event.key === "g") {
      prefix = Date.now();
    } else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); } else { event.preventDefault(); location.assign("/topics?focus=1"); }
    } else if (event.key === "j" || event.key === "k") {
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "?") {
      const help = document.getElementById("keys");
      if (help && !help.open) help.showModal();
    } else if (event.key === "r") {
      location.reload();
    }
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) { event.preventDefault(); document.getElementById(opener.dataset.dialog).showModal(); }
  });

  if (new URLSearchParams(location.search).get("focus") === "1") document.querySelector("[data-search]")?.focus();

  // the theme without a page load; the form of the button works without a script, too
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-theme-form]");
    if (!form) return;
    event.preventDefault();
    const select = form.querySelector("[name=theme]");
    const next = select.value;
    const body = new URLSearchParams(new FormData(form));
    fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => {});
    document.documentElement.dataset.theme = next;
    const order = ["auto", "light", "dark"];
    select.value = order[(order.indexOf(next) + 1) % 3];
    form.querySelector("[data-theme-name]").textContent = next;
  });

  // a page of a cluster that does not answer loads itself again
  const retry = document.querySelector("[data-retry]");
  if (retry) setTimeout(() => location.reload(), Number(retry.dataset.retry) * 1000);

  // live tail
  const tail = document.querySelector("[data-tail]");
  if (tail) startTail(tail);

  function startTail(box) {
    const body = box.querySelector("tbody");
    const state = document.getElementById("tail-state");
    const count = document.getElementById("tail-count");
    const left = document.getElementById("tail-left-out");
    const pause = document.getElementById("tail-pause");
    const empty = document.getElementById("tail-empty");
    const most = 500;
    let source = null, shown = 0, leftOut = 0;
    const say = (name, text) => { state.dataset.state = name; state.textContent = text; };
    const text = (event) => JSON.parse(event.data);

    function open() {
      say("wait", "connecting");
      source = new EventSource(box.dataset.tail);
      source.addEventListener("alive", () => say("open", "live"));
      source.addEventListener("rows", (event) => {
        say("open", "live");
        // the server has escaped every value of the fragment
        const fragment = document.createElement("template");
        fragment.innerHTML = text(event);
        const added = [...fragment.content.querySelectorAll("tr")];
        for (const row of added) body.prepend(row);
        while (body.rows.length > most) body.deleteRow(-1);
        shown += added.length;
        count.textContent = shown.toLocaleString("en");
        empty.hidden = true;
      });
      source.addEventListener("left-out", (event) => {
        leftOut += Number(text(event));
        left.textContent = ` · ${leftOut.toLocaleString("en")} more were not shown`;
      });
      source.addEventListener("trouble", (event) => { say("lost", text(event)); });
      source.onerror = () => {
        if (state.dataset.state !== "lost") say("lost", "connection lost, trying again");
        // a refused stream (too many are open, or the session is over) is not opened again by the browser
        if (source.readyState === EventSource.CLOSED) { source.close(); setTimeout(() => { if (source) open(); }, 5000); }
      };
    }

    function close() { source.close(); source = null; say("paused", "paused"); }

    pause.addEventListener("click", () => {
      if (source) close(); else open();
      pause.textContent = source ? "Pause" : "Resume";
    });
    document.getElementById("tail-clear").addEventListener("click", () => { body.replaceChildren(); empty.hidden = false; });
    window.addEventListener("pagehide", () => source?.close());
    open();
  }
})();
