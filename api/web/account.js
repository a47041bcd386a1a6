// Who one is for the server, in the page's head, and the dialog that changes it.

import {ask} from "./control.js";
import {token} from "./data.js";
import {begin, learn, who} from "./me.js";
import {button, el, put} from "./text.js";

const MAY = {
  anybody: "You have no role here: nothing is shown without a token.",
  read: "You may look at everything. To submit, steer, upload or delete takes a token whose role is run or admin.",
  run: "You may look, submit runs, steer any run, upload data, and delete what you submitted yourself.",
  admin: "You may do everything, and delete what others submitted.",
};
const BY = {
  named_token: (me) => "This tab has the token of " + me.name + ", whose role is " + me.role + ".",
  token: () => "This tab has the token of the state folder: its role is admin.",
  socket: () => "You came by the Unix socket: your role is admin.",
  page: () => "The address that you came by lets this browser read.",
  loopback: () => "This server lets you read without a token, since you are on its machine.",
  nothing: () => "The server does not know you.",
};

function words(me) {
  if (!me) return "you: ?";
  if (me.unknown) return "token not known";
  if (me.by === "named_token") return me.name + " · " + me.role;
  return {token: "admin", socket: "admin", page: "reading only", loopback: "reading only"}[me.by] || "no token";
}

async function open(changed) {
  const me = await learn(), had = token.get();
  const parts = !me ? ["The server does not say who you are."]
    : [...me.unknown ? ["The server does not know this tab’s token: it was revoked, or is another server’s."] : [],
      BY[me.by](me), MAY[me.role]];
  const forget = button("forget the token", () => {
    token.forget();
    forget.closest("dialog").close();
    changed();
  });
  forget.hidden = !had;
  const done = await ask("who you are here", [...parts.map((text) => el("p", text)), el("p", forget)],
    {label: "use this token", entry: true}, async () => {
      const now = await learn();
      if (now && !now.unknown && token.get()) return;
      if (had) token.set(had);
      else token.forget();
      throw new Error("The server knows no such token.");
    });
  if (done) changed();
}

// The button @b says who one is; say(text) tells what is refused, changed() that
// one is another from now on.
export function account(b, say, changed) {
  b.addEventListener("click", () => open(changed));
  return begin(say, () => {
    const me = who();
    put(b, words(me));
    b.title = me ? BY[me.by](me) + " " + MAY[me.role] : "";
    b.classList.toggle("warn", Boolean(me?.unknown));
    b.hidden = me === null;
  });
}
