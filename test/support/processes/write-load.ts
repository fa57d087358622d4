/**
 * Writers of unique values through several nodes; at the end no acknowledged write is missing and none appears twice.
 */
import assert from 'node:assert/strict';
import {
  type Entry,
  type HttpOutcome,
  type Target,
  type RegistryWatcher,
  httpCall,
  entries,
  waitMsMax,
  put,
} from './manager-requests.ts';

type WriteOutcome = 'acknowledged' | 'refused' | 'unknown';

export const loadPrefix = '/load/';
const counterKey = `${loadPrefix}counter`;

export class WriteLoad {
  readonly outcomes = new Map<string, WriteOutcome>();
  readonly codes = new Map<string, number>();
  readonly #running: Promise<void>[] = [];
  #acknowledged = 0;
  #wakeUp: () => void = () => undefined;
  #isStopped = false;

  /** Two writers and a counter per target. A client whose node is gone stops; all others run until `stop`. */
  constructor(targets: readonly Target[]) {
    for (const [at, target] of targets.entries()) {
      for (const own of ['x', 'y']) this.#running.push(this.#write(target, `w${at}${own}`));
      this.#running.push(this.#count(target, `c${at}`));
    }
  }

  /** Waits until this many more writes are acknowledged. */
  async awaitWrites(count: number): Promise<void> {
    const goal = this.#acknowledged + count;
    const late = AbortSignal.timeout(waitMsMax);
    late.addEventListener('abort', () => this.#wakeUp());
    while (this.#acknowledged < goal) {
      assert.ok(!late.aborted, `no write is acknowledged: ${this.summary}`);
      await new Promise<void>((done) => (this.#wakeUp = done));
    }
  }

  /** Stops all clients and waits until every call has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running);
  }

  get summary(): string {
    return [...this.codes].map(([code, count]) => `${count} ${code}`).join(', ');
  }

  /** Compares the outcomes with the registry, and with a watch that was opened before the load. */
  async verify(target: Target, watch: RegistryWatcher): Promise<Entry[]> {
    // The watch delivers this write after every write that has a reply.
    const { body } = await until(async () => await put(target, `${loadPrefix}end`, 'end'));
    await watch.until('the end of the load', () => watch.revision >= Number(body['revision']));
    const seen = watch.changes.filter(({ key }) => key !== `${loadPrefix}end`);
    const values = new Map<string, number>();
    for (const { value } of seen) values.set(value, (values.get(value) ?? 0) + 1);
    for (const [value, outcome] of this.outcomes) {
      const times = values.get(value) ?? 0;
      assert.ok(times <= 1, `${value} was applied ${times} times`);
      assert.ok(outcome !== 'acknowledged' || times === 1, `${value} was acknowledged and is lost`);
      assert.ok(outcome !== 'refused' || times === 0, `${value} was refused and is there`);
    }
    for (const value of values.keys()) assert.ok(this.outcomes.has(value), `no writer wrote ${value}`);
    const found = await entries(target, loadPrefix);
    for (const { key, value, version } of found.filter(({ key }) => key !== `${loadPrefix}end`)) {
      const history = seen.filter((change) => change.key === key);
      assert.deepEqual(
        history.map((change) => change.version),
        history.map((_, index) => index + 1),
      );
      assert.deepEqual([value, version], [history.at(-1)?.value, history.length]);
    }
    return found;
  }

  async #write(target: Target, name: string): Promise<void> {
    for (let n = 1; !this.#isStopped; n++) {
      if (!(await this.#send(target, `${loadPrefix}${name}`, `${name}.${n}`))) return;
    }
  }

  async #count(target: Target, name: string): Promise<void> {
    for (let n = 1; !this.#isStopped; n++) {
      const { code, body } = await httpCall(target, 'GET', `/v1/registry?key=${encodeURIComponent(counterKey)}`);
      this.codes.set(`GET ${code}`, (this.codes.get(`GET ${code}`) ?? 0) + 1);
      if (code === 'GONE') return;
      if (code !== 'OK') continue;
      const [counter] = body['items'] as Entry[];
      if (!(await this.#send(target, counterKey, `${name}.${n}`, counter?.version ?? 0))) return;
    }
  }

  async #send(target: Target, key: string, value: string, ifVersion?: number): Promise<boolean> {
    this.outcomes.set(value, 'unknown');
    const reply = await put(target, key, value, ifVersion);
    const { code } = reply;
    this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
    this.outcomes.set(value, outcomeOf(reply));
    if (code === 'OK') this.#acknowledged += 1;
    this.#wakeUp();
    return code !== 'GONE';
  }
}

function outcomeOf({ code, body }: HttpOutcome): WriteOutcome {
  if (code === 'OK') return 'acknowledged';
  const { stateChanged } = (body['error'] ?? {}) as { readonly stateChanged?: unknown };
  return stateChanged === 'no' ? 'refused' : 'unknown';
}

async function until(send: () => Promise<HttpOutcome>): Promise<HttpOutcome> {
  for (let attempts = 0; attempts < 20; attempts++) {
    const reply = await send();
    if (reply.code === 'OK') return reply;
  }
  return assert.fail('the registry accepts no write');
}
