/** A group of agents of one side and what their logs report. Times are taken by the bench. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { choosePorts } from '../../src/cli/dev/free-ports.ts';
import { cpuMs, NetworkNamespace, residentMib } from '../support/host-meters.ts';
import { type AgentLaunch, host, type MembershipSide, type ReportedState } from './sides.ts';

type Agent = {
  readonly plan: AgentLaunch;
  readonly child: ChildProcess;
  readonly view: Map<string, ReportedState>;
  listeningMs: number | undefined;
};

export type DetectionTimes = { readonly firstMs: number; readonly allMs: number };
export type JoinTimes = { readonly convergedMs: number };
export type IdleCost = {
  readonly cpuMsPerMinute: number;
  readonly bytesPerSecond: number;
  readonly packetsPerSecond: number;
  readonly residentMib: number;
};

/** Those that have not been stopped. */
const running = new Set<AgentGroup>();

/** Whatever takes longer counts as this long. */
export const deadlineMs = 90_000;
const tailLines = 20;
/** After starting, until processes have nothing left to do. */
const calmMs = 3_000;

export class AgentGroup {
  readonly side: MembershipSide;
  /** Deaths of members that nobody has hurt, one for each agent that believed in one. */
  falseDeaths = 0;
  readonly #network: NetworkNamespace;
  readonly #plans: AgentLaunch[];
  readonly #agents = new Map<string, Agent>();
  readonly #tail: string[] = [];
  #hurt: string | undefined;
  #look: (() => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(side: MembershipSide, network: NetworkNamespace, plans: AgentLaunch[]) {
    this.side = side;
    this.#network = network;
    this.#plans = plans;
  }

  static async stopAll(): Promise<void> {
    await Promise.all([...running].map((group) => group.stop()));
  }

  /** Only plans; `start` begins, and `stop` must be called in the end. */
  static async plan(side: MembershipSide, nodes: number, folder: string): Promise<AgentGroup> {
    const { ports } = await choosePorts(20_000, nodes, host);
    const plans = ports.map(({ port, httpPort: controlPort }, i) => {
      return { name: `n${i + 1}`, port, controlPort, folder, seeds: [] };
    });
    const group = new AgentGroup(side, await NetworkNamespace.open(), plans);
    running.add(group);
    return group;
  }

  /**
   * All processes first, none of which knows another one; how long they take is not compared. Then all are told at once
   * to join the first. The clock starts when they are told and stops when every agent has said of every other that it
   * is alive.
   */
  async start(): Promise<JoinTimes> {
    for (const plan of this.#plans) this.#begin(plan);
    await this.#until('all listen', () => this.#listening() === this.#plans.length);
    await pause(calmMs);
    const joiningMs = await this.#join();
    const seenMs = await this.#until('all see all', () => this.#allAlive());
    return { convergedMs: seenMs - joiningMs };
  }

  async #join(): Promise<number> {
    const [seed, ...others] = this.#plans;
    const joiner = [process.execPath, join(import.meta.dirname, 'joiner-main.ts'), this.side.name];
    const words = [...joiner, `${host}:${seed!.port}`, ...others.map(({ controlPort }) => String(controlPort))];
    const [file, rest] = this.#network.commandInside(words);
    const child = spawn(file, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data', { signal: AbortSignal.timeout(deadlineMs) });
    return performance.now();
  }

  /** One window of idleness. */
  async idle(durationMs: number): Promise<IdleCost> {
    const agents = [...this.#agents.values()];
    const read = () => ({
      atMs: performance.now(),
      cpu: agents.reduce((total, { child }) => total + cpuMs(child.pid!), 0),
      ...this.#network.traffic(),
    });
    const before = read();
    await pause(durationMs);
    const after = read();
    const seconds = ((after.atMs - before.atMs) / 1_000) * agents.length;
    return {
      cpuMsPerMinute: ((after.cpu - before.cpu) / seconds) * 60,
      bytesPerSecond: (after.bytes - before.bytes) / seconds,
      packetsPerSecond: (after.packets - before.packets) / seconds,
      residentMib: agents.reduce((total, { child }) => total + residentMib(child.pid!), 0) / agents.length,
    };
  }

  /** From the signal until the first, and until every survivor has said that the member is dead. */
  async injectFault(index: number, signal: 'SIGKILL' | 'SIGSTOP'): Promise<DetectionTimes> {
    const { name } = this.#plans[index]!;
    const survivors = [...this.#agents.values()].filter(({ plan }) => plan.name !== name);
    const dead = ({ view }: Agent): boolean => view.get(name) === 'dead';
    this.#hurt = name;
    const fromMs = performance.now();
    this.#agents.get(name)!.child.kill(signal);
    const firstMs = await this.#until(`somebody knows of ${signal} at ${name}`, () => survivors.some(dead));
    const allMs = await this.#until(`all know of ${signal} at ${name}`, () => survivors.every(dead));
    return { firstMs: firstMs - fromMs, allMs: allMs - fromMs };
  }

  /** Starts it again, or wakes it, and waits until everybody sees everybody; how long that took. */
  async heal(index: number): Promise<number> {
    const plan = this.#plans[index]!;
    const { child } = this.#agents.get(plan.name)!;
    const fromMs = performance.now();
    if (child.signalCode === null && child.exitCode === null) {
      child.kill('SIGCONT');
    } else {
      const other = this.#plans[index === 0 ? 1 : 0]!;
      this.#begin({ ...plan, seeds: [`${host}:${other.port}`] });
    }
    const healedMs = await this.#until(`${plan.name} is back`, () => this.#allAlive());
    this.#hurt = undefined;
    return healedMs - fromMs;
  }

  /** Asks all to end in good order, and waits until they have. */
  async leave(): Promise<void> {
    const agents = [...this.#agents.values()];
    this.#agents.clear();
    const ends = agents.map(({ child }) => once(child, 'close', { signal: AbortSignal.timeout(deadlineMs) }));
    for (const { child } of agents) child.kill('SIGTERM');
    await Promise.allSettled(ends);
    for (const { child } of agents) child.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    if (!running.delete(this)) return;
    this.#look = undefined;
    this.#fail = undefined;
    const ends = [...this.#agents.values()].map(async ({ child }) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    });
    this.#agents.clear();
    await Promise.all(ends);
    await this.#network.close();
  }

  #begin(plan: AgentLaunch): void {
    const [file, words] = this.#network.commandInside(this.side.command(plan));
    const child = spawn(file, words, { env: this.side.environment, stdio: ['pipe', 'pipe', 'pipe'] });
    const view = new Map<string, ReportedState>([[plan.name, 'alive']]);
    const agent: Agent = { plan, child, view, listeningMs: undefined };
    this.#agents.set(plan.name, agent);
    child.stdin.on('error', () => undefined);
    for (const output of [child.stdout, child.stderr]) {
      let rest = '';
      output.setEncoding('utf8').on('data', (text: string) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop()!;
        for (const line of lines) this.#heard(agent, line);
        this.#look?.();
      });
    }
    child.once('close', (code, signal) => {
      if (this.#agents.get(plan.name) !== agent || this.#hurt === plan.name) return;
      this.#fail?.(new Error(`${this.side.name} ${plan.name} ended (${signal ?? code})\n${this.#tail.join('\n')}`));
    });
  }

  #heard(agent: Agent, line: string): void {
    this.#tail.push(`${agent.plan.name}: ${line}`);
    if (this.#tail.length > tailLines) this.#tail.shift();
    const said = this.side.read(line);
    if (said === undefined) return;
    if (said.kind === 'listening') agent.listeningMs = performance.now();
    else if (said.member !== agent.plan.name) agent.view.set(said.member, said.standing);
    if (said.kind === 'saw' && said.standing === 'dead' && said.member !== this.#hurt) this.falseDeaths += 1;
  }

  #listening(): number {
    return [...this.#agents.values()].filter(({ listeningMs }) => listeningMs !== undefined).length;
  }

  #allAlive(): boolean {
    const agents = [...this.#agents.values()];
    return agents.every(({ view }) => agents.every(({ plan }) => view.get(plan.name) === 'alive'));
  }

  /** When it came true, looked at after every piece of output. */
  async #until(what: string, isSo: () => boolean): Promise<number> {
    if (isSo()) return performance.now();
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#fail = reject;
    this.#look = () => {
      if (isSo()) resolve(performance.now());
    };
    const late = setTimeout(() => {
      reject(new Error(`${this.side.name}: not within ${deadlineMs} ms: ${what}\n${this.#doubts()}`));
    }, deadlineMs);
    try {
      return await promise;
    } finally {
      clearTimeout(late);
      this.#look = undefined;
      this.#fail = undefined;
    }
  }

  /** Who sees whom as anything but alive. */
  #doubts(): string {
    const agents = [...this.#agents.values()];
    const doubts = agents.flatMap(({ plan, view }) =>
      agents
        .filter((other) => view.get(other.plan.name) !== 'alive')
        .map((other) => `${plan.name} sees ${other.plan.name} ${view.get(other.plan.name) ?? 'not at all'}`),
    );
    return [...doubts.slice(0, tailLines), ...this.#tail].join('\n');
  }
}
