/**
 * A simulated world: hosts, network, disks and one program per host, from one seed. Offers crash, cut, pause; never
 * does them by itself.
 *
 * The same seed, programs and orders give the same run, to the byte of the log. Two worlds share nothing.
 */
import { assert } from '../../base/assert.ts';
import type { Log } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { Failpoints } from '../../base/failpoints.ts';
import { SimulatedDisk } from '../engine/simulated-disk.ts';
import { SimulationLog, type LogSink } from '../engine/simulation-log.ts';
import { SimulatedHost } from './simulated-host.ts';
import { type LinkConditions, lanConditions, SimulatedNetwork } from '../engine/simulated-network.ts';
import { type SimulatedPorts, openSimulatedPorts } from './simulated-ports.ts';
import { RareDraws } from '../engine/rare-draws.ts';
import { type ConnectionLimits, defaultConnectionLimits, ConnectionTable } from './connection-table.ts';
import { Timeline } from '../engine/timeline.ts';

export type NodeContext = {
  readonly name: string;
  /** 0 for the first node. */
  readonly index: number;
  /** 1 for the first life on this disk. */
  readonly boots: number;
  /** Where this host is reached. */
  readonly host: string;
  readonly random: Random;
  readonly rare: Failpoints;
  readonly log: Log;
};

/** Starts a program on its ports. What it returns is kept for those who look from outside. */
export type Boot<Program> = (ports: SimulatedPorts, context: NodeContext) => Program;

export type WorldOptions<Program> = {
  readonly seed: string;
  readonly names: readonly string[];
  readonly boot: Boot<Program>;
  readonly conditions?: LinkConditions;
  readonly limits?: Partial<ConnectionLimits>;
  /** False: rare paths are as rare as in real life. */
  readonly rarities?: boolean;
  readonly detailed?: boolean;
  readonly sink?: LogSink | undefined;
};

type Node<Program> = { readonly host: SimulatedHost; program: Program | undefined; boots: number };

/** What happened to a node from outside; `threw` is a mistake of its program. */
export type WorldEvent =
  | { readonly kind: 'started' | 'stopped'; readonly node: string }
  | { readonly kind: 'threw'; readonly node: string; readonly error: unknown };

export class SimulatedWorld<Program> {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  readonly rareDraws: RareDraws;
  readonly names: readonly string[];
  readonly #nodes: Map<string, Node<Program>>;
  readonly #byAddress = new Map<string, SimulatedHost>();
  readonly #board: ConnectionTable;
  readonly #boot: Boot<Program>;
  readonly #watchers: ((event: WorldEvent) => void)[] = [];

  constructor(options: WorldOptions<Program>) {
    const {
      seed,
      names,
      boot,
      conditions = lanConditions,
      limits = {},
      rarities = true,
      detailed = false,
      sink,
    } = options;
    assert(new Set(names).size === names.length, 'two nodes of one name');
    this.random = new Random(seed);
    this.names = names;
    this.log = new SimulationLog({ nowMs: () => this.timeline.nowMs, detailed, sink });
    this.network = new SimulatedNetwork(this.timeline, this.random.fork('network'), conditions);
    this.rareDraws = new RareDraws(this.random.fork('rare'), !rarities);
    this.#boot = boot;
    this.#board = new ConnectionTable({
      timeline: this.timeline,
      network: this.network,
      log: this.log,
      rare: this.rareDraws.rare,
      limits: { ...defaultConnectionLimits, ...limits },
      hostAt: (address) => this.#byAddress.get(address),
    });
    this.#nodes = new Map(names.map((name, index) => [name, this.#newNode(name, index)]));
  }

  watch(watcher: (event: WorldEvent) => void): void {
    this.#watchers.push(watcher);
  }

  host(name: string): SimulatedHost {
    return this.#node(name).host;
  }

  /** The program that runs on that node now. */
  program(name: string): Program | undefined {
    return this.#node(name).program;
  }

  isUp(name: string): boolean {
    return this.#node(name).host.process !== undefined;
  }

  /** How many lives that node has had; the last one may be over. */
  bootCount(name: string): number {
    return this.#node(name).boots;
  }

  up(): string[] {
    return this.names.filter((name) => this.isUp(name));
  }

  startAll(): void {
    for (const name of this.names) if (!this.isUp(name)) this.start(name);
  }

  /** Boots a program on whatever its disk holds. */
  start(name: string): void {
    const node = this.#node(name);
    const { host } = node;
    const life = host.boot((error) => this.#threw(name, error));
    node.boots += 1;
    this.log.add(name, node.boots === 1 ? 'starts' : `starts again, life ${node.boots}`);
    const ports = openSimulatedPorts(this.#board, host, life);
    const context = this.#context(name, node);
    life.run(() => {
      node.program = this.#boot(ports, context);
    });
    this.#tell({ kind: 'started', node: name });
  }

  /** Without warning. `lost` also takes the power of the host, and with it whatever was not synced. */
  crash(name: string, power: 'kept' | 'lost' = 'lost'): void {
    const node = this.#node(name);
    if (node.host.process === undefined) return;
    this.log.add(name, power === 'lost' ? 'power lost' : 'process killed');
    node.program = undefined;
    node.host.stop(power);
    this.#tell({ kind: 'stopped', node: name });
  }

  /** The process stands still while the world goes on; threads of it too. */
  pauseNode(name: string, durationMs: number): void {
    this.log.add(name, `stands still for ${durationMs.toFixed(0)} ms`);
    this.host(name).process?.pause(durationMs);
  }

  cut(from: string, to: string): void {
    this.network.cut(this.host(from).index, this.host(to).index);
  }

  mend(from: string, to: string): void {
    this.network.mend(this.host(from).index, this.host(to).index);
  }

  /** Cuts both directions between members of different groups. The result undoes it. */
  partition(groups: readonly (readonly string[])[]): () => void {
    this.log.add('world', `partition ${groups.map((group) => group.join(',')).join(' / ')}`);
    const pairs = groups.flatMap((group, at) =>
      groups.filter((_, other) => other !== at).flatMap((other) => group.flatMap((a) => other.map((b) => [a, b]))),
    ) as [string, string][];
    for (const [from, to] of pairs) this.cut(from, to);
    return () => {
      this.log.add('world', `partition over ${groups.map((group) => group.join(',')).join(' / ')}`);
      for (const [from, to] of pairs) this.mend(from, to);
    };
  }

  /** Everything outside the programs is well again: links, disks, clocks, stalls. Who is down stays down. */
  heal(): void {
    this.log.add('world', 'heals');
    this.network.heal();
    for (const { host } of this.#nodes.values()) {
      host.disk.heal();
      host.setRate(1);
      host.process?.resume();
    }
  }

  advance(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
  }

  #newNode(name: string, index: number): Node<Program> {
    const random = this.random.fork(`host/${name}`);
    const { timeline } = this;
    const disk = new SimulatedDisk(timeline, random.fork('disk'));
    const address = `10.0.${index >> 8}.${index & 0xff}`;
    const host = new SimulatedHost({ index, name, address, timeline, random, disk });
    this.#byAddress.set(address, host);
    return { host, program: undefined, boots: 0 };
  }

  #context(name: string, { host, boots }: Node<Program>): NodeContext {
    const { index, address } = host;
    return {
      ...{ name, index, boots, host: address, rare: this.rareDraws.rare },
      random: this.random.fork(`program/${name}/${boots}`),
      log: (level, message, fields) => {
        if (level !== 'debug') this.log.add(name, printLine(level, message, fields));
        else this.log.detail(name, () => printLine(level, message, fields));
      },
    };
  }

  #threw(name: string, error: unknown): void {
    this.log.add(name, `threw ${String(error)}`);
    this.#tell({ kind: 'threw', node: name, error });
  }

  #tell(event: WorldEvent): void {
    for (const watcher of this.#watchers) watcher(event);
  }

  #node(name: string): Node<Program> {
    const node = this.#nodes.get(name);
    assert(node !== undefined, `no node is called ${name}`);
    return node;
  }
}

function printLine(level: string, message: string, fields: Readonly<Record<string, unknown>> | undefined): string {
  const parts = Object.entries(fields ?? {}).map(([name, value]) => `${name}=${String(value)}`);
  return [level === 'info' ? '' : `${level}: `, message, ...parts.map((part) => ` ${part}`)].join('');
}
