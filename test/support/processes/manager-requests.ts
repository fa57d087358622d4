/** Managers as processes, and HTTP requests to them. A request that never ends fails the test. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { errorTable, type ErrorCode } from '../../../src/base/error-table.ts';
import { type Agent, awaitBindable, awaitEvent, ProcessLab, type NodeEvent } from './process-lab.ts';

export type Target = { readonly addr: string; readonly token?: string };
type Fields = Readonly<Record<string, unknown>>;
/** `GONE`: the connection broke, so the outcome of the request is unknown. */
export type HttpOutcome = { readonly code: 'OK' | 'GONE' | ErrorCode; readonly body: Fields };

export type NodeStatusReply = {
  readonly leader: string | null;
  readonly term: number;
  readonly fence: string | null;
  readonly registration: string | null;
};
export type Entry = { readonly key: string; readonly value: string; readonly version: number };
export type Change = Entry & { readonly kind: 'put' | 'delete'; readonly revision: number };
export type Leader = { readonly name: string; readonly term: number; readonly fence: bigint };

const requestMsMax = 30_000;
export const waitMsMax = 60_000;

export async function httpCall(target: Target, method: string, path: string, body?: object): Promise<HttpOutcome> {
  const { addr, token } = target;
  const headers = { 'content-type': 'application/json', ...(token === undefined ? {} : authorization(token)) };
  const late = AbortSignal.timeout(requestMsMax);
  try {
    const options = { method, headers, signal: late, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(new URL(path, addr), options);
    return replyOf(response.ok, (await response.json()) as Fields);
  } catch (error) {
    if (late.aborted) throw new Error(`${method} ${path} at ${addr} hangs`, { cause: error });
    if (!(error instanceof TypeError)) throw error;
    return { code: 'GONE', body: {} };
  }
}

function authorization(token: string): { readonly authorization: string } {
  return { authorization: `Bearer ${token}` };
}

function replyOf(isOk: boolean, body: Fields): HttpOutcome {
  if (isOk) return { code: 'OK', body };
  const { code } = (body['error'] ?? {}) as { readonly code?: unknown };
  assert.ok(typeof code === 'string' && Object.hasOwn(errorTable, code), `no coded error: ${JSON.stringify(body)}`);
  return { code: code as ErrorCode, body };
}

/** The body of a GET request that must succeed. */
export async function get(target: Target, path: string): Promise<Fields> {
  const { code, body } = await httpCall(target, 'GET', path);
  assert.equal(code, 'OK', JSON.stringify(body));
  return body;
}

export async function put(target: Target, key: string, value: string, ifVersion?: number): Promise<HttpOutcome> {
  return await httpCall(target, 'PUT', '/v1/registry', {
    key,
    value,
    ...(ifVersion === undefined ? {} : { ifVersion }),
  });
}

/** All entries under a prefix, by a linearizable read. */
export async function entries(target: Target, prefix: string): Promise<Entry[]> {
  const { items, more } = await get(target, `/v1/registry?prefix=${encodeURIComponent(prefix)}`);
  assert.equal(more, false);
  return items as Entry[];
}

export async function fetchNodeStatus(target: Target): Promise<NodeStatusReply> {
  return (await get(target, '/v1/node')) as NodeStatusReply;
}

/** Cuts the links between this node, which runs with `--chaos`, and these nodes in both directions. */
export async function cutLinks(at: Target, off: readonly { readonly name: string }[]): Promise<void> {
  const { code, body } = await httpCall(at, 'POST', '/v1/dev/partition', { cut: off.map(({ name }) => name) });
  assert.equal(code, 'OK', JSON.stringify(body));
}

/** Polls for a state that no event reports, or that several nodes must share. */
export async function until<T>(
  what: string,
  poll: () => Promise<T | undefined>,
  details: () => string = () => '',
): Promise<T> {
  const late = Date.now() + waitMsMax;
  for (;;) {
    const found = await poll();
    if (found !== undefined) return found;
    assert.ok(Date.now() < late, `not within ${waitMsMax} ms: ${what}\n${details()}`);
    await pause(50);
  }
}

/** Waits until all targets name the same leader and fence, in a term above `after`. */
export async function awaitCommonLeader(targets: readonly Target[], after = 0): Promise<Leader> {
  return await until(`one leader after term ${after}`, async () => {
    const [first, ...others] = await Promise.all(targets.map(fetchNodeStatus));
    if (first === undefined || first.leader === null || first.fence === null || first.term <= after) return undefined;
    if (
      others.some(({ leader, term, fence }) => leader !== first.leader || term !== first.term || fence !== first.fence)
    )
      return undefined;
    return { name: first.leader, term: first.term, fence: BigInt(first.fence) };
  });
}

export async function awaitVoters(target: Target, names: readonly string[]): Promise<void> {
  const expected = names.toSorted().join();
  await until(`the voters ${expected}`, async () => {
    const { items } = await get(target, '/v1/managers');
    const voters = (items as { name: string; standing: string }[]).filter(({ standing }) => standing === 'voter');
    const found = voters.map(({ name }) => name).toSorted();
    return found.join() === expected ? true : undefined;
  });
}

export async function awaitRegistration(target: Target, mode: string): Promise<void> {
  await until(`${target.addr} ${mode}`, async () =>
    (await fetchNodeStatus(target)).registration === mode ? true : undefined,
  );
}

/** Waits for an event of a node, past or future, with these fields. */
export async function awaitNodeEvent(by: Agent, type: string, fields: Fields = {}, after = 0): Promise<NodeEvent> {
  const fits = (found: NodeEvent): boolean =>
    found.type === type && found.seq > after && Object.entries(fields).every(([name, value]) => found[name] === value);
  return await awaitEvent(by.addr, fits, `${by.name} to report ${type} ${JSON.stringify(fields)}`);
}

/** All events of a node so far. */
export async function fetchEvents(target: Target): Promise<NodeEvent[]> {
  return (await get(target, '/v1/events?follow=false'))['items'] as NodeEvent[];
}

/** The managers of one consensus group, all of them voters, registered and active. */
export class Managers {
  readonly lab: ProcessLab;
  readonly #args: readonly string[];
  readonly #agents = new Map<string, Agent>();

  private constructor(lab: ProcessLab, args: readonly string[]) {
    this.lab = lab;
    this.#args = args;
  }

  static async start(context: TestContext, names: readonly string[], args: readonly string[] = []): Promise<Managers> {
    return await Managers.startIn(new ProcessLab(context), names, args);
  }

  static async startIn(lab: ProcessLab, names: readonly string[], args: readonly string[]): Promise<Managers> {
    const managers = new Managers(lab, args);
    const [first, ...others] = names;
    const seed = await managers.add(first!, ['--bootstrap']);
    await Promise.all(others.map((name) => managers.add(name, ['--join', `127.0.0.1:${seed.port}`])));
    await managers.awaitReady();
    return managers;
  }

  async add(name: string, args: readonly string[]): Promise<Agent> {
    const agent = await this.lab.agent(name, [...this.#args, ...args]);
    this.#agents.set(name, agent);
    return agent;
  }

  get all(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  get(name: string): Agent {
    return this.#agents.get(name) ?? assert.fail(`no manager ${name}`);
  }

  others(...not: readonly Agent[]): [Agent, ...Agent[]] {
    return this.all.filter((agent) => !not.includes(agent)) as [Agent, ...Agent[]];
  }

  async leader(after = 0, among: readonly Agent[] = this.all): Promise<Leader & { readonly agent: Agent }> {
    const leader = await awaitCommonLeader(among, after);
    return { ...leader, agent: this.get(leader.name) };
  }

  async awaitReady(): Promise<void> {
    const names = this.all.map(({ name }) => name);
    await Promise.all(this.all.map((agent) => awaitVoters(agent, names)));
    await Promise.all(this.all.map((agent) => awaitRegistration(agent, 'active')));
  }

  async kill(...agents: readonly Agent[]): Promise<void> {
    for (const agent of agents) agent.kill('SIGKILL');
    await Promise.all(agents.map((agent) => agent.waitForExit()));
  }

  /** Restarts a manager with its data and port; it joins through all others. */
  async restart(name: string): Promise<Agent> {
    const { port } = this.get(name);
    await awaitBindable(port);
    const joins = this.all.flatMap((other) => (other.name === name ? [] : ['--join', `127.0.0.1:${other.port}`]));
    return await this.add(name, [...joins, '--port', String(port)]);
  }
}

/** Watches the registry through one node until the test ends. */
export class RegistryWatcher {
  readonly changes: Change[] = [];
  revision = 0;
  #onChange: () => void = () => undefined;
  #failure: unknown;

  constructor(context: TestContext, target: Target, path: string) {
    const stop = new AbortController();
    context.after(() => stop.abort());
    void this.#follow(target, path, stop.signal);
  }

  static async open(context: TestContext, target: Target, prefix: string): Promise<RegistryWatcher> {
    const { revision } = await get(target, `/v1/registry?limit=1`);
    const from = Number(revision) + 1;
    return new RegistryWatcher(context, target, `/v1/registry/watch?prefix=${encodeURIComponent(prefix)}&from=${from}`);
  }

  async until(what: string, fits: () => boolean): Promise<void> {
    const late = AbortSignal.timeout(waitMsMax);
    late.addEventListener('abort', () => this.#onChange());
    while (!fits()) {
      if (this.#failure !== undefined) throw new Error(`the watch ended before ${what}`, { cause: this.#failure });
      assert.ok(!late.aborted, `not within ${waitMsMax} ms: ${what}\n${JSON.stringify(this.changes.slice(-20))}`);
      await new Promise<void>((done) => (this.#onChange = done));
    }
  }

  async #follow({ addr, token }: Target, path: string, signal: AbortSignal): Promise<void> {
    try {
      const headers = token === undefined ? {} : authorization(token);
      const response = await fetch(new URL(path, addr), { signal, headers });
      let rest = '';
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        const blocks = (rest + chunk).split('\n\n');
        rest = blocks.pop()!;
        for (const block of blocks) this.#onBlock(block);
        this.#onChange();
      }
      this.#failure = new Error('the node ended the watch');
    } catch (error) {
      this.#failure = error;
    }
    this.#onChange();
  }

  #onBlock(block: string): void {
    const data = /^data: ?(.*)$/m.exec(block)?.[1];
    if (data === undefined) return;
    if (/^event: ?from$/m.test(block)) return;
    assert.doesNotMatch(block, /^event:/m);
    const { revision, changes } = JSON.parse(data) as { revision: number; changes: Omit<Change, 'revision'>[] };
    assert.ok(revision > this.revision, `revision ${revision} after ${this.revision}`);
    this.revision = revision;
    for (const change of changes) this.changes.push({ ...change, revision });
  }
}
