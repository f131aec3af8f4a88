// The page's news, by server-sent events over fetch: unlike EventSource, it can carry a token and knows why it is refused.

const FIRST_DELAY = 500;
const MAX_DELAY = 10_000;
const SILENCE = 40_000; // heartbeats come every 15 s

/**
 * Follows the stream for ever.
 *
 * told: { page(), change(data), whole(data), line(state, words), refused(problem) }
 */
export class Stream {
  #told;
  #last = null;
  #delay = FIRST_DELAY;
  #token = null;
  #wake = null;

  constructor(told) {
    this.#told = told;
  }

  /** Headers of whoever signed in. */
  headers() {
    return this.#token === null ? {} : { Authorization: `Bearer ${this.#token}` };
  }

  /** Try again at once, as somebody else. */
  signIn(token) {
    this.#token = token;
    this.#delay = FIRST_DELAY;
    this.#wake?.();
  }

  async run() {
    addEventListener("online", () => this.#wake?.());
    for (;;) {
      const refusal = await this.#once();
      if (refusal !== null) {
        this.#told.line("off", "Signed out");
        this.#told.refused(refusal);
        await this.#pause(null);
        continue;
      }
      this.#told.line("off", "No connection, trying again");
      await this.#pause(this.#delay);
      this.#delay = Math.min(this.#delay * 2, MAX_DELAY);
    }
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds === null ? null : setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** One connection, until it ends; why it was refused, or null. */
  async #once() {
    const ending = new AbortController();
    let watchdog = setTimeout(() => ending.abort(), SILENCE);
    try {
      const headers = { ...this.headers(), Accept: "text/event-stream" };
      if (this.#last !== null) headers["Last-Event-ID"] = this.#last;
      const answer = await fetch("api/events", { headers, cache: "no-store", signal: ending.signal });
      if (answer.status === 401 || answer.status === 403) return (await answer.json()).problem;
      if (!answer.ok) return null;
      this.#told.line("on", "Live");
      this.#delay = FIRST_DELAY;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let left = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => ending.abort(), SILENCE);
        const blocks = (left + value).split("\n\n");
        left = blocks.pop();
        for (const block of blocks) {
          this.#take(block);
          // A long first page comes in one piece: let the browser draw and answer in between.
          if (blocks.length > 4) await new Promise((resolve) => setTimeout(resolve));
        }
      }
    } catch {
      return null; // no connection, or it was cut: the only thing to do is to try again
    } finally {
      clearTimeout(watchdog);
      ending.abort();
    }
  }

  #take(block) {
    let name = "";
    let data = "";
    let id = null;
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
      else if (line.startsWith("id: ")) id = line.slice(4);
    }
    if (name === "") return;
    this.#told[name](JSON.parse(data));
    if (id !== null) this.#last = id;
  }
}
