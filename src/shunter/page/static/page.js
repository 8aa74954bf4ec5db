// Keeps a page live. What the server sends is markup of its own in which everything that people or
// jobs have said is escaped; it is parsed apart from the document, where no script of it can run,
// and what differs is put in place, so that focus, ticks and open branches stay.
"use strict";
(() => {
  const body = document.body;
  const state = document.getElementById("state");
  const trouble = document.getElementById("trouble");
  const ahead = Number(body.dataset.now) - Date.now() / 1000;
  let source = null;
  let lastWord = Date.now();
  let isLost = false;
  const held = new Map();

  const say = (kind, word) => {
    if (!state) return;
    state.className = `state ${kind}`;
    const text = state.querySelector(".word");
    if (text.textContent !== word) text.textContent = word;
  };
  const complain = (text) => {
    trouble.hidden = !text;
    if (trouble.textContent !== text) trouble.textContent = text;
  };

  // ---- spans that grow

  const spanText = (seconds) => {
    const s = Math.max(0, seconds);
    if (s < 1) return "now";
    if (s < 59.5) return `${Math.round(s)} s`;
    for (const [size, unit, below, lower] of [
      [86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (s >= size) {
        const rest = Math.floor((s % size) / below);
        return rest && s < size * 10 ? `${Math.floor(s / size)} ${unit} ${rest} ${lower}` : `${Math.floor(s / size)} ${unit}`;
      }
    }
    return `${Math.round(s)} s`;
  };
  const age = (root) => {
    const now = Date.now() / 1000 + ahead;
    for (const it of root.querySelectorAll("time[data-since]")) {
      const text = spanText(now - Number(it.dataset.since));
      if (it.textContent !== text) it.textContent = text;
    }
  };

  // ---- what differs is put in place

  const keep = (name, node) =>
    (name === "open" && node.localName === "details") || (name === "checked" && node.localName === "input");
  const morph = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.localName === "time" && old.dataset.since === fresh.dataset.since) return;
    for (const { name, value } of fresh.attributes)
      if (!keep(name, old) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes])
      if (!keep(name, old) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    morphChildren(old, fresh);
  };
  const morphChildren = (old, fresh) => {
    const was = [...old.childNodes];
    const will = [...fresh.childNodes];
    will.forEach((node, at) => (at < was.length ? morph(was[at], node) : old.append(node)));
    was.slice(will.length).forEach((node) => node.remove());
  };
  const parsed = (markup, tag) => {
    const holder = document.implementation.createHTMLDocument("").createElement(tag);
    holder.innerHTML = markup;
    return document.importNode(holder, true);
  };
  const change = ({ regions = {}, lists = {}, plots }) => {
    if (plots) document.dispatchEvent(new CustomEvent("points", { detail: plots }));
    for (const [name, markup] of Object.entries(regions)) {
      const region = document.querySelector(`[data-region="${CSS.escape(name)}"]`);
      if (!region) continue;
      const log = region.querySelector("pre.text");
      const follows = log && log.scrollHeight - log.scrollTop - log.clientHeight < 30;
      morphChildren(region, parsed(markup, "div"));
      if (follows) region.querySelector("pre.text")?.scrollTo(0, 1e9);
    }
    for (const [name, { order, rows }] of Object.entries(lists)) {
      const list = document.querySelector(`[data-list="${CSS.escape(name)}"]`);
      if (!list) continue;
      const known = new Map([...list.children].map((row) => [row.dataset.row, row]));
      if (list.querySelector("input:checked")) {
        // somebody is choosing: nothing may move under the pointer
        for (const [id, markup] of Object.entries(rows))
          if (known.has(id)) morph(known.get(id), parsed(markup, "tbody").firstElementChild);
        held.set(name, true);
        continue;
      }
      const marked = known.size && order.filter((id) => !known.has(id)).length <= 5;
      let last = null;
      for (const id of order) {
        let row = known.get(id);
        known.delete(id);
        if (Object.hasOwn(rows, id)) {
          const fresh = parsed(rows[id], "tbody").firstElementChild;
          if (row) morph(row, fresh);
          else {
            row = fresh;
            if (marked) row.classList.add("fresh");
          }
        }
        if (!row) continue;
        const next = last ? last.nextElementSibling : list.firstElementChild;
        if (next !== row) list.insertBefore(row, next);
        last = row;
      }
      for (const row of known.values()) row.remove();
    }
    age(document);
  };

  // ---- the stream, only while somebody looks

  const hear = () => {
    lastWord = Date.now();
    isLost = false;
    say("live", "live");
    complain("");
  };
  const open = () => {
    if (source || document.hidden || !body.dataset.live) return;
    source = new EventSource(`${body.dataset.live}&digest=${body.dataset.digest}`);
    body.dataset.digest = "";
    source.addEventListener("open", hear);
    source.addEventListener("change", (event) => {
      hear();
      change(JSON.parse(event.data));
    });
    source.addEventListener("trouble", (event) => {
      say("lost", "trouble");
      complain(JSON.parse(event.data).message);
    });
    source.addEventListener("bye", () => lose());
    source.addEventListener("error", () => lose());
  };
  const lose = () => {
    const at = new Date(lastWord + ahead * 1000).toISOString().slice(11, 19);
    isLost = true;
    say("lost", "not live");
    complain(`This dispatcher does not answer. You see what was so at ${at} UTC; trying again.`);
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(open, 1500);
    }
  };
  const again = () => {
    source?.close();
    source = null;
    open();
  };
  const close = () => {
    source?.close();
    source = null;
    say("", "paused");
  };
  document.addEventListener("submit", (event) => {
    if (!isLost) return;
    event.preventDefault();
    complain("Nothing was sent: this dispatcher does not answer. Try it again once the page is live.");
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  setInterval(() => document.hidden || age(document), 1000);
  age(document);
  open();

  // ---- the keyboard, and all ticks at once

  const current = document.querySelector(".top nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - 60;
  if (location.hash === "#search") document.querySelector("[data-search]")?.focus();
  let going = 0;
  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest?.("input, textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || (typed && event.target.type !== "checkbox")) return;
    if (event.key === "/") {
      event.preventDefault();
      const field = document.querySelector("[data-search]");
      if (field) field.focus();
      else location.href = "/jobs#search";
    } else if (event.key === "g") {
      going = Date.now();
    } else if (Date.now() - going < 1500) {
      going = 0;
      const links = [...document.querySelectorAll(".top nav a")].filter(
        (it) => it.textContent.trim().toLowerCase().startsWith(event.key));
      const here = links.findIndex((it) => it.getAttribute("aria-current") === "page");
      if (links.length) location.href = links[(here + 1) % links.length].href;
    }
  });
  document.addEventListener("change", (event) => {
    if (held.size && !document.querySelector("[data-list] input:checked")) {
      held.clear();
      again();
    }
    const name = event.target.dataset?.all;
    if (!name) return;
    for (const it of document.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]`))
      it.checked = event.target.checked;
  });
})();
