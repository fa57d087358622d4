/** A group of agents of one side, and the member states that their logs report. The bench takes the times. */
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

/** Groups that were not stopped. */
const running = new Set<AgentGroup>();

/** Timeout of each measurement. */
export const deadlineMs = 90_000;
const tailLines = 20;
/** Delay after the start, until the processes are idle. */
const calmMs = 3_000;

export class AgentGroup {
  readonly side: MembershipSide;
  /** Reports of a death without an injected fault, one for each agent that logged it. */
  falseDeaths = 0;
  readonly #network: NetworkNamespace;
  readonly #plans: AgentLaunch[];
  readonly #agents = new Map<string, Agent>();
  readonly #tail: string[] = [];
  /** The member with an injected fault. */
  #victim: string | undefined;
  #onOutput: (() => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(side: MembershipSide, network: NetworkNamespace, plans: AgentLaunch[]) {
    this.side = side;
    this.#network = network;
    this.#plans = plans;
  }

  static async stopAll(): Promise<void> {
    await Promise.all([...running].map((group) => group.stop()));
  }

  /** Starts no process: `start` does. The caller must call `stop`. */
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
   * Starts all processes, each alone, which is not measured. Then all are told at once to join the first one. The time
   * ends when every agent has logged every other one as alive.
   */
  async start(): Promise<JoinTimes> {
    for (const plan of this.#plans) this.#spawn(plan);
    await this.#until('all agents listen', () => this.#listeningCount() === this.#plans.length);
    await pause(calmMs);
    const joinMs = await this.#join();
    const convergedMs = await this.#until('all agents see each other', () => this.#allAlive());
    return { convergedMs: convergedMs - joinMs };
  }

  async #join(): Promise<number> {
    const [seed, ...others] = this.#plans;
    const joiner = [process.execPath, join(import.meta.dirname, 'joiner-main.ts'), this.side.name];
    const command = [...joiner, `${host}:${seed!.port}`, ...others.map(({ controlPort }) => String(controlPort))];
    const [file, args] = this.#network.commandInside(command);
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data', { signal: AbortSignal.timeout(deadlineMs) });
    return performance.now();
  }

  /** One sample of the idle cost. */
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

  /** Times from the signal until the first and until every survivor has logged the death. */
  async injectFault(index: number, signal: 'SIGKILL' | 'SIGSTOP'): Promise<DetectionTimes> {
    const { name } = this.#plans[index]!;
    const survivors = [...this.#agents.values()].filter(({ plan }) => plan.name !== name);
    const hasDetected = ({ view }: Agent): boolean => view.get(name) === 'dead';
    this.#victim = name;
    const fromMs = performance.now();
    this.#agents.get(name)!.child.kill(signal);
    const firstMs = await this.#until(`a survivor detects ${signal} at ${name}`, () => survivors.some(hasDetected));
    const allMs = await this.#until(`all survivors detect ${signal} at ${name}`, () => survivors.every(hasDetected));
    return { firstMs: firstMs - fromMs, allMs: allMs - fromMs };
  }

  /** Restarts or resumes the victim; returns the time until all agents see each other again. */
  async heal(index: number): Promise<number> {
    const plan = this.#plans[index]!;
    const { child } = this.#agents.get(plan.name)!;
    const fromMs = performance.now();
    if (child.signalCode === null && child.exitCode === null) {
      child.kill('SIGCONT');
    } else {
      const other = this.#plans[index === 0 ? 1 : 0]!;
      this.#spawn({ ...plan, seeds: [`${host}:${other.port}`] });
    }
    const healedMs = await this.#until(`${plan.name} is alive in all views`, () => this.#allAlive());
    this.#victim = undefined;
    return healedMs - fromMs;
  }

  /** Ends all agents with SIGTERM, so that they leave, and waits for their exits. */
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
    this.#onOutput = undefined;
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

  #spawn(plan: AgentLaunch): void {
    const [file, args] = this.#network.commandInside(this.side.command(plan));
    const child = spawn(file, args, { env: this.side.environment, stdio: ['pipe', 'pipe', 'pipe'] });
    const view = new Map<string, ReportedState>([[plan.name, 'alive']]);
    const agent: Agent = { plan, child, view, listeningMs: undefined };
    this.#agents.set(plan.name, agent);
    child.stdin.on('error', () => undefined);
    for (const output of [child.stdout, child.stderr]) {
      let rest = '';
      output.setEncoding('utf8').on('data', (text: string) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop()!;
        for (const line of lines) this.#onLine(agent, line);
        this.#onOutput?.();
      });
    }
    child.once('close', (code, signal) => {
      if (this.#agents.get(plan.name) !== agent || this.#victim === plan.name) return;
      const text = `${this.side.name} ${plan.name} exited (${signal ?? code})`;
      this.#fail?.(new Error(`${text}\n${this.#tail.join('\n')}`));
    });
  }

  #onLine(agent: Agent, line: string): void {
    this.#tail.push(`${agent.plan.name}: ${line}`);
    if (this.#tail.length > tailLines) this.#tail.shift();
    const report = this.side.parse(line);
    if (report === undefined) return;
    if (report.kind === 'listening') agent.listeningMs = performance.now();
    else if (report.member !== agent.plan.name) agent.view.set(report.member, report.state);
    if (report.kind === 'member' && report.state === 'dead' && report.member !== this.#victim) this.falseDeaths += 1;
  }

  #listeningCount(): number {
    return [...this.#agents.values()].filter(({ listeningMs }) => listeningMs !== undefined).length;
  }

  #allAlive(): boolean {
    const agents = [...this.#agents.values()];
    return agents.every(({ view }) => agents.every(({ plan }) => view.get(plan.name) === 'alive'));
  }

  /** Resolves with the time at which the condition holds; it is checked after each output. */
  async #until(what: string, condition: () => boolean): Promise<number> {
    if (condition()) return performance.now();
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#fail = reject;
    this.#onOutput = () => {
      if (condition()) resolve(performance.now());
    };
    const timer = setTimeout(() => {
      reject(new Error(`${this.side.name}: not within ${deadlineMs} ms: ${what}\n${this.#missingViews()}`));
    }, deadlineMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#onOutput = undefined;
      this.#fail = undefined;
    }
  }

  /** The members that an agent does not see as alive. */
  #missingViews(): string {
    const agents = [...this.#agents.values()];
    const views = agents.flatMap(({ plan, view }) =>
      agents
        .filter((other) => view.get(other.plan.name) !== 'alive')
        .map((other) => `${plan.name} sees ${other.plan.name} ${view.get(other.plan.name) ?? 'not at all'}`),
    );
    return [...views.slice(0, tailLines), ...this.#tail].join('\n');
  }
}
