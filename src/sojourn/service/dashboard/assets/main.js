// The page: asks for the state, and has each part show its own of it.

import { Classes } from "./classes.js";
import { setNow } from "./clock.js";
import { Connection } from "./connection.js";
import { byId, setText } from "./element.js";
import { File } from "./file.js";
import { Find } from "./find.js";
import { Keys } from "./keys.js";
import { Oldest } from "./oldest.js";
import { Poll } from "./poll.js";
import { Subscribers } from "./subscribers.js";
import { startTheme } from "./theme.js";
import { Tiles } from "./tiles.js";
import { Times } from "./times.js";
import { TokenForm } from "./token.js";
import { showFirstSteps, showVerdict } from "./verdict.js";
import { Wheel } from "./wheel.js";

startTheme();
showFirstSteps();
setText(byId("where"), location.host);

const parts = [new Tiles(), new Classes(), new Keys(), new Oldest(), new Times(), new Subscribers(), new Wheel(), new File()];
const connection = new Connection();
const tokenForm = new TokenForm(() => poll.ask());
const find = new Find(onTrouble);

const poll = new Poll({
  state(state) {
    setNow(state.now_ms);
    tokenForm.close();
    byId("numbers").hidden = false;
    connection.good();
    showVerdict(state);
    parts.forEach((part) => part.update(state));
    find.look();
  },
  trouble: onTrouble,
  paused: () => connection.pause(),
});

/** Say what is wrong; whether to go on asking. */
function onTrouble(error) {
  if (error.status === 401) {
    tokenForm.ask(error);
    return false;
  }
  connection.bad(error);
  return true;
}

poll.ask();
setInterval(() => connection.show(), 1000);
setInterval(() => find.tick(), 1000);
