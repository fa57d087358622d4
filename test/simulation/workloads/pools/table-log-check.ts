/** Compares the address table of a node that stops with its log: every version in memory must be durable. */
import { walPath } from '../../../../src/containers/address-table/wal-files.ts';
import { readWal } from '../../../../src/containers/address-table/wal-record.ts';
import type { NodeCore } from '../../../../src/node/core/node-core-types.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { poolLabel } from './pool-label.ts';

export class TableLogCheck {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  /** Nodes whose table was confirmed since their start: before that it may hold hints that are in no log. */
  readonly #confirmed = new Map<string, NodeCore>();

  constructor(world: SimulatedWorld<SimulatedNode>, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#observe = observe;
    world.watch((event) => {
      if (event.kind === 'stopped') this.#onStopped(event.node);
    });
  }

  booted(name: string, { core }: SimulatedNode): void {
    core?.events.follow(({ type }) => {
      if (type === 'table.confirmed') this.#confirmed.set(name, core);
    });
  }

  /** The node runs no more, but its memory can still be read. */
  #onStopped(node: string): void {
    const core = this.#confirmed.get(node);
    this.#confirmed.delete(node);
    const table = core?.containers?.table;
    if (core === undefined || table === undefined) return;
    const { files } = this.#world.host(node).disk;
    for (const pool of table.pools()) {
      const { record, name } = pool;
      const label = poolLabel(name, record.params);
      const logged = new Map<number, number>();
      const bytes = files.get(walPath(record, core.identity.id))?.bytes() ?? new Uint8Array();
      readWal(bytes, record, (container, _, version) => logged.set(container, version));
      for (let container = 0; container < record.containers; container++) {
        const known = table.versionOf(pool, container);
        // A version newer than the table is a hint.
        if (known <= table.version)
          this.#observe({
            kind: 'tableLogRead',
            node,
            pool: label,
            container,
            known,
            logged: logged.get(container) ?? 0,
          });
      }
    }
  }
}
