/**
 * Compares what the address tables of nodes say with what their logs hold: looked at now and then while a node runs, and
 * against the disk when it ends. What was in memory must have been durable before.
 */
import type { NodeId } from '../../base/ids.ts';
import { walPath } from '../../containers/table/table-files.ts';
import { readWal } from '../../containers/table/wal-record.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';

type Known = {
  readonly pool: string;
  readonly major: number;
  readonly minor: number;
  readonly versions: readonly number[];
};
type Look = { readonly self: NodeId; readonly pools: readonly Known[] };

const lookEveryMs = 250;

export class TableWatch {
  readonly #world: World<HostedNode>;
  readonly #observe: StageSpec['observe'];
  /** Nodes whose table has been confirmed in this life, with what it said at the last look. */
  readonly #looks = new Map<string, Look | undefined>();

  constructor(world: World<HostedNode>, observe: StageSpec['observe']) {
    this.#world = world;
    this.#observe = observe;
    world.watch((event) => {
      if (event.kind === 'stopped') this.#ended(event.node);
    });
    this.#lookAgain();
  }

  /** Before that a table may hold hints that are in no log. */
  booted(name: string, { core }: HostedNode): void {
    const hear = ({ type }: { readonly type: string }): void => {
      if (type === 'table.confirmed') this.#looks.set(name, undefined);
    };
    core?.events.follow(hear);
  }

  #lookAgain(): void {
    for (const name of this.#looks.keys()) this.#looks.set(name, this.#look(name));
    this.#world.timeline.after(lookEveryMs, () => this.#lookAgain());
  }

  #look(name: string): Look | undefined {
    const core = this.#world.program(name)?.core;
    const table = core?.containers?.table;
    if (core === undefined || table === undefined) return undefined;
    const pools = table.pools().map((pool) => {
      const { major, minor, containers } = pool.record;
      const versions = Array.from({ length: containers }, (_, container) => {
        const version = table.versionOf(pool, container);
        // What is newer than the table is a hint.
        return version <= table.version ? version : 0;
      });
      return { pool: pool.name, major, minor, versions };
    });
    return { self: core.identity.id, pools };
  }

  #ended(node: string): void {
    const look = this.#looks.get(node);
    this.#looks.delete(node);
    const { files } = this.#world.host(node).disk;
    for (const { pool, major, minor, versions } of look?.pools ?? []) {
      const logged = new Map<number, number>();
      const bytes = files.get(walPath({ major, minor }, look?.self as NodeId))?.bytes() ?? new Uint8Array();
      readWal(bytes, { major, minor }, (container, _, version) => logged.set(container, version));
      for (const [container, known] of versions.entries())
        this.#observe({ kind: 'logLooked', node, pool, container, known, logged: logged.get(container) ?? 0 });
    }
  }
}
