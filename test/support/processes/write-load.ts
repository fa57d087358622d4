/**
 * Writers of unique values through several nodes; afterwards nothing acknowledged is missing and nothing appears twice.
 */
import assert from 'node:assert/strict';
import {
  type Entry,
  type HttpOutcome,
  type Target,
  type Watched,
  httpCall,
  entries,
  waitMsMax,
  put,
} from './manager-requests.ts';

type Fate = 'acknowledged' | 'refused' | 'unknown';

export const loadPrefix = '/load/';
const counterKey = `${loadPrefix}counter`;

export class WriteLoad {
  readonly fates = new Map<string, Fate>();
  readonly codes = new Map<string, number>();
  readonly #running: Promise<void>[] = [];
  #acknowledged = 0;
  #wakeUp: () => void = () => undefined;
  #isStopped = false;

  /** Two writers and a counter on each. A client whose node is gone stops; all others go on until they are told. */
  constructor(targets: readonly Target[]) {
    for (const [at, target] of targets.entries()) {
      for (const own of ['x', 'y']) this.#running.push(this.#write(target, `w${at}${own}`));
      this.#running.push(this.#count(target, `c${at}`));
    }
  }

  /** So many more writes are acknowledged: the load goes on. */
  async awaitWrites(count: number): Promise<void> {
    const goal = this.#acknowledged + count;
    const late = AbortSignal.timeout(waitMsMax);
    late.addEventListener('abort', () => this.#wakeUp());
    while (this.#acknowledged < goal) {
      assert.ok(!late.aborted, `writing stands still: ${this.summary}`);
      await new Promise<void>((done) => (this.#wakeUp = done));
    }
  }

  /** Until every call has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running);
  }

  get summary(): string {
    return [...this.codes].map(([code, count]) => `${count} ${code}`).join(', ');
  }

  /** Against what the registry has and what the watch, which began before the load, has seen. */
  async verify(target: Target, watch: Watched): Promise<Entry[]> {
    // Through the same watch: what comes after everything that has an answer.
    const { body } = await until(async () => await put(target, `${loadPrefix}end`, 'end'));
    await watch.until('the end of the load', () => watch.revision >= Number(body['revision']));
    const seen = watch.changes.filter(({ key }) => key !== `${loadPrefix}end`);
    const values = new Map<string, number>();
    for (const { value } of seen) values.set(value, (values.get(value) ?? 0) + 1);
    for (const [value, fate] of this.fates) {
      const times = values.get(value) ?? 0;
      assert.ok(times <= 1, `${value} was applied ${times} times`);
      assert.ok(fate !== 'acknowledged' || times === 1, `${value} was acknowledged and is lost`);
      assert.ok(fate !== 'refused' || times === 0, `${value} was refused and is there`);
    }
    for (const value of values.keys()) assert.ok(this.fates.has(value), `nobody wrote ${value}`);
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
    this.fates.set(value, 'unknown');
    const reply = await put(target, key, value, ifVersion);
    const { code } = reply;
    this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
    this.fates.set(value, fateOf(reply));
    if (code === 'OK') this.#acknowledged += 1;
    this.#wakeUp();
    return code !== 'GONE';
  }
}

function fateOf({ code, body }: HttpOutcome): Fate {
  if (code === 'OK') return 'acknowledged';
  const { stateChanged } = (body['error'] ?? {}) as { readonly stateChanged?: unknown };
  return stateChanged === 'no' ? 'refused' : 'unknown';
}

async function until(send: () => Promise<HttpOutcome>): Promise<HttpOutcome> {
  for (let tries = 0; tries < 20; tries++) {
    const reply = await send();
    if (reply.code === 'OK') return reply;
  }
  return assert.fail('the registry takes no write');
}
