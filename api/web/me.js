// Who looks at the page, and what their role lets them do. A button that needs
// more than that is dimmed, says so as its tooltip, and in words when it is
// clicked.

import {get, token} from "./data.js";

const ROLES = ["anybody", "read", "run", "admin"];

let me = null, told = () => {}, changed = () => {};

// {name, role, by} as GET /me has them, and whether the server knows this tab's
// token; null: not known yet.
export const who = () => me;

// Why what needs @role is refused; "": it is not. Who has no token is asked for
// one where it is needed.
export function lacks(role) {
  if (!me || me.by !== "named_token" || ROLES.indexOf(me.role) >= ROLES.indexOf(role)) return "";
  return "This needs the role " + role + "; the token " + me.name + " has the role " + me.role + ".";
}

function dim(b) {
  const why = lacks(b.dataset.needs);
  if (why) b.setAttribute("aria-disabled", "true");
  else if (!b.hasAttribute("aria-disabled")) return;
  else b.removeAttribute("aria-disabled");
  b.title = why;
}

// The button @b needs @role.
export function needs(b, role) {
  b.dataset.needs = role;
  dim(b);
  return b;
}

// Asks the server. One that does not answer, or is older, says nothing.
export async function learn() {
  const sent = token.get();
  try {
    const answer = await get("/me");
    me = {...answer, unknown: sent !== "" && !["named_token", "token"].includes(answer.by)};
  } catch {
    me = null;
  }
  for (const b of document.querySelectorAll("[data-needs]")) dim(b);
  changed();
  return me;
}

// say(text) tells why nothing happens; show() that who() has changed.
export function begin(say, show) {
  told = say;
  changed = show;
  token.changed = learn;
  document.addEventListener("click", (e) => {
    const b = e.target.closest("[data-needs][aria-disabled=true]");
    if (!b) return;
    e.stopImmediatePropagation();
    e.preventDefault();
    told(b.title);
  }, true);
  return learn();
}
