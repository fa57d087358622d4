/**
 * Executes the commands of golden/placement traces and prints record changes and events.
 *
 *   nodes 3      lead a [quietly: the former leader does not know]      run 500
 *   pool p containers=2 copies=2 [durability=memory] [restart=yes] [moduleVersion=1]      delete p
 *   kill b     start b [drained]     gone b (proof)     pause b     wake b     cut b     heal b     mode b draining
 *   opens b fails     hands b never     copies b never     move p/0 c
 */
import assert from 'node:assert/strict';
import { fenceParts } from '../../../src/base/fence.ts';
import type { ContainerRecord, PoolRecord } from '../../../src/placement/state/container-records.ts';
import type { NodeMode } from '../../../src/registration/node-modes.ts';
import type { PlacementTestNode } from '../placement/placement-node.ts';
import { PlacementTestCluster } from '../placement/placement-cluster.ts';

export function placementDriver(): (command: string) => string {
  const trace = new PlacementTrace();
  return (command) => trace.execute(command);
}

class PlacementTrace {
  readonly #cluster = new PlacementTestCluster();
  readonly #pools = new Map<string, Partial<PoolRecord>>();
  #lines: string[] = [];

  constructor() {
    const onEvent = this.#cluster.onEvent.bind(this.#cluster);
    this.#cluster.onEvent = (event) => {
      onEvent(event);
      this.#line(`  ${this.#cluster.events.at(-1)}`);
    };
    this.#cluster.onRecord = (text, record) => this.#line(this.#recordIn(text, record));
  }

  execute(command: string): string {
    const [verb = '', target = '', ...rest] = command.split(' ');
    this.#do(verb, target, rest);
    const text = this.#lines.join('\n');
    this.#lines = [];
    return text === '' ? 'nothing' : text;
  }

  #do(verb: string, target: string, rest: readonly string[]): void {
    const cluster = this.#cluster;
    const node = (): PlacementTestNode => cluster.node(target);
    const commands: Readonly<Record<string, () => void>> = {
      nodes: () => cluster.add(Number(target)),
      lead: () => cluster.lead(target, rest[0] === 'quietly' ? 'does not know' : 'knows'),
      run: () => cluster.run(Number(target)),
      pool: () => this.#pool(target, rest),
      delete: () => this.#pool(target, ['state=deleting']),
      kill: () => node().kill(),
      start: () => node().start(rest[0] as NodeMode | undefined),
      gone: () => cluster.leader?.placer?.nodeGone(node().id, node().generation),
      pause: () => node().pause(),
      wake: () => node().resume(),
      cut: () => node().cut(),
      heal: () => node().heal(),
      mode: () => node().setMode(rest[0] as NodeMode),
      opens: () => void Object.assign(node(), { opens: rest[0] }),
      hands: () => void Object.assign(node(), { hands: rest[0] }),
      copies: () => void Object.assign(node(), { copies: rest[0] }),
      move: () => {
        const outcome = cluster.move(target, rest[0] ?? '');
        if (!outcome.ok) this.#line(`refused: ${outcome.error.message}`);
      },
    };
    (commands[verb] ?? assert.fail(`there is no command ${verb}`))();
  }

  #pool(name: string, words: readonly string[]): void {
    const fields = words.map((word) => {
      const [key = '', value = ''] = word.split('=');
      return [key, value === 'yes' ? true : /^\d+$/.test(value) ? Number(value) : value];
    });
    const record = { ...this.#pools.get(name), ...Object.fromEntries(fields) } as Partial<PoolRecord>;
    this.#pools.set(name, record);
    this.#cluster.create(name, record);
  }

  #recordIn(text: string, record: ContainerRecord): string {
    const name = (id: string | undefined): string => this.#cluster.nameOf(id);
    const { term, index } = fenceParts(record.fence);
    const copies = record.copies.map((id) => {
      const isInSync = record.inSync.some((holder) => holder.node === id);
      return isInSync ? name(id) : `(${name(id)})`;
    });
    const life = record.owner?.generation === 1 ? '' : `/${record.owner?.generation}`;
    const parts = [`${text} ${name(record.owner?.node)}${life} ${term}.${index} ${record.opening} ${record.phase}`];
    parts.push(`copies ${copies.join(' ')}`);
    if (record.move !== undefined) parts.push(`${record.move.step} to ${name(record.move.to)}`);
    if (record.failures > 0) parts.push(`failures ${record.failures}`);
    if (record.moduleVersion > 0) parts.push(`version ${record.moduleVersion}`);
    return parts.join(', ');
  }

  #line(text: string): void {
    this.#lines.push(`${String(Math.round(this.#cluster.timeline.nowMs)).padStart(6)}  ${text}`);
  }
}
