/**
 * A simulated world: hosts, network, disks and one program per host, from one seed. The same seed, programs and calls
 * give the same run, to the byte of the log. Causes no fault by itself; two worlds share nothing.
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
import { FailpointDraws } from '../engine/failpoint-draws.ts';
import { type ConnectionLimits, defaultConnectionLimits, ConnectionTable } from './connection-table.ts';
import { Timeline } from '../engine/timeline.ts';

export type NodeContext = {
  readonly name: string;
  /** 0 for the first node. */
  readonly index: number;
  /** Number of starts on this disk, from 1. */
  readonly boots: number;
  /** Host part of its address. */
  readonly host: string;
  readonly random: Random;
  readonly failpoints: Failpoints;
  readonly log: Log;
};

/** Starts a program on its ports; `SimulatedWorld.program` returns the result. */
export type Boot<Program> = (ports: SimulatedPorts, context: NodeContext) => Program;

export type WorldOptions<Program> = {
  readonly seed: string;
  readonly names: readonly string[];
  readonly boot: Boot<Program>;
  readonly conditions?: LinkConditions;
  readonly limits?: Partial<ConnectionLimits>;
  /** False: no failpoint fires, as in production. */
  readonly failpoints?: boolean;
  readonly detailed?: boolean;
  readonly sink?: LogSink | undefined;
};

type Node<Program> = { readonly host: SimulatedHost; program: Program | undefined; boots: number };

/** An event of a node; `threw` is an uncaught exception of its program. */
export type WorldEvent =
  | { readonly kind: 'started' | 'stopped'; readonly node: string }
  | { readonly kind: 'threw'; readonly node: string; readonly error: unknown };

export class SimulatedWorld<Program> {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  readonly failpointDraws: FailpointDraws;
  readonly names: readonly string[];
  readonly #nodes: Map<string, Node<Program>>;
  readonly #byAddress = new Map<string, SimulatedHost>();
  readonly #table: ConnectionTable;
  readonly #boot: Boot<Program>;
  readonly #watchers: ((event: WorldEvent) => void)[] = [];

  constructor(options: WorldOptions<Program>) {
    const {
      seed,
      names,
      boot,
      conditions = lanConditions,
      limits = {},
      failpoints = true,
      detailed = false,
      sink,
    } = options;
    assert(new Set(names).size === names.length, 'two nodes have the same name');
    this.random = new Random(seed);
    this.names = names;
    this.log = new SimulationLog({ nowMs: () => this.timeline.nowMs, detailed, sink });
    this.network = new SimulatedNetwork(this.timeline, this.random.fork('network'), conditions);
    this.failpointDraws = new FailpointDraws(this.random.fork('rare'), !failpoints);
    this.#boot = boot;
    this.#table = new ConnectionTable({
      timeline: this.timeline,
      network: this.network,
      log: this.log,
      failpoints: this.failpointDraws.failpoints,
      limits: { ...defaultConnectionLimits, ...limits },
      hostAt: (address) => this.#byAddress.get(address),
    });
    this.#nodes = new Map(names.map((name, index) => [name, this.#createNode(name, index)]));
  }

  watch(watcher: (event: WorldEvent) => void): void {
    this.#watchers.push(watcher);
  }

  host(name: string): SimulatedHost {
    return this.#node(name).host;
  }

  /** The program that runs on the node now. */
  program(name: string): Program | undefined {
    return this.#node(name).program;
  }

  isUp(name: string): boolean {
    return this.#node(name).host.process !== undefined;
  }

  /** Number of starts of the node so far. */
  bootCount(name: string): number {
    return this.#node(name).boots;
  }

  up(): string[] {
    return this.names.filter((name) => this.isUp(name));
  }

  startAll(): void {
    for (const name of this.names) if (!this.isUp(name)) this.start(name);
  }

  /** Boots the program on the disk of the node. */
  start(name: string): void {
    const node = this.#node(name);
    const { host } = node;
    const process = host.boot((error) => this.#onThrow(name, error));
    node.boots += 1;
    this.log.add(name, node.boots === 1 ? 'starts' : `restarts, generation ${node.boots}`);
    const ports = openSimulatedPorts(this.#table, host, process);
    const context = this.#context(name, node);
    process.run(() => {
      node.program = this.#boot(ports, context);
    });
    this.#notify({ kind: 'started', node: name });
  }

  /** Ends the process at once. `lost` also cuts the power, and with it all unsynced data. */
  crash(name: string, power: 'kept' | 'lost' = 'lost'): void {
    const node = this.#node(name);
    if (node.host.process === undefined) return;
    this.log.add(name, power === 'lost' ? 'power lost' : 'process killed');
    node.program = undefined;
    node.host.stop(power);
    this.#notify({ kind: 'stopped', node: name });
  }

  /** Pauses the process and its threads while the world goes on. */
  pauseNode(name: string, durationMs: number): void {
    this.log.add(name, `paused for ${durationMs.toFixed(0)} ms`);
    this.host(name).process?.pause(durationMs);
  }

  cut(from: string, to: string): void {
    this.network.cut(this.host(from).index, this.host(to).index);
  }

  mend(from: string, to: string): void {
    this.network.mend(this.host(from).index, this.host(to).index);
  }

  /** Cuts both directions between different groups. The result mends them. */
  partition(groups: readonly (readonly string[])[]): () => void {
    this.log.add('world', `partition ${groups.map((group) => group.join(',')).join(' / ')}`);
    const pairs = groups.flatMap((group, at) =>
      groups.filter((_, other) => other !== at).flatMap((other) => group.flatMap((a) => other.map((b) => [a, b]))),
    ) as [string, string][];
    for (const [from, to] of pairs) this.cut(from, to);
    return () => {
      this.log.add('world', `partition ends ${groups.map((group) => group.join(',')).join(' / ')}`);
      for (const [from, to] of pairs) this.mend(from, to);
    };
  }

  /** Ends all faults of links, disks and clocks, and all pauses. A node that is down stays down. */
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

  #createNode(name: string, index: number): Node<Program> {
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
      ...{ name, index, boots, host: address, failpoints: this.failpointDraws.failpoints },
      random: this.random.fork(`program/${name}/${boots}`),
      log: (level, message, fields) => {
        if (level !== 'debug') this.log.add(name, formatLine(level, message, fields));
        else this.log.detail(name, () => formatLine(level, message, fields));
      },
    };
  }

  #onThrow(name: string, error: unknown): void {
    this.log.add(name, `threw ${String(error)}`);
    this.#notify({ kind: 'threw', node: name, error });
  }

  #notify(event: WorldEvent): void {
    for (const watcher of this.#watchers) watcher(event);
  }

  #node(name: string): Node<Program> {
    const node = this.#nodes.get(name);
    assert(node !== undefined, `there is no node ${name}`);
    return node;
  }
}

function formatLine(level: string, message: string, fields: Readonly<Record<string, unknown>> | undefined): string {
  const parts = Object.entries(fields ?? {}).map(([name, value]) => `${name}=${String(value)}`);
  return [level === 'info' ? '' : `${level}: `, message, ...parts.map((part) => ` ${part}`)].join('');
}
