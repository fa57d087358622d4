/**
 * Evening out, on the leader's side: makes a plan when somebody asks or when it is time, hands its moves out one by one
 * as tasks and knows how they ended. By itself it plans one move per cycle, and none while another one is under way,
 * so that each plan stands on what the last one led to. It never writes anything.
 */
import { type Outcome, type RemusterError, failure, success } from '../../base/errors.ts';
import { type ClusterView, type KnownNode, isActive } from './cluster-view.ts';
import type { NodeLoad } from './ranking.ts';
import type { RebalanceOptions } from './rebalance-options.ts';
import { type PlanNode, type PlannedMove, type RebalancePlan, planRebalance } from './rebalance-plan.ts';
import { type OnTheWay, loadsOf } from './target.ts';
import type { Task } from './tasks.ts';

export type RebalanceRequest = { readonly dryRun: boolean; readonly movesMax: number };

export type RebalanceResult = RebalancePlan & {
  readonly dryRun: boolean;
  /** How many of the moves have begun; they go on by themselves. */
  readonly started: number;
  readonly failed: readonly { readonly name: string; readonly why: string }[];
};

export type RebalanceAnswer = { readonly call: number; readonly outcome: Outcome<RebalanceResult> };

export const rebalanceLimits = { movesMaxDefault: 10, movesMax: 1_000 } as const;

const hourMs = 3_600_000;

type Asked = {
  readonly call: number;
  readonly plan: RebalancePlan;
  started: number;
  failed: { name: string; why: string }[];
};

export class Rebalancer {
  readonly #options: RebalanceOptions;
  #moves: PlannedMove[] = [];
  /** Handed out and not ended. */
  readonly #begun = new Set<string>();
  #asked: Asked | undefined;
  #cycleMs: number;
  /** When moves of the last hour began that nobody asked for; no longer than `movesPerHourMax`. */
  #recentMs: number[] = [];

  constructor(options: RebalanceOptions, nowMs: number) {
    this.#options = options;
    this.#cycleMs = nowMs + options.intervalMs;
  }

  /** When `cycle` has something to look at next. */
  get nextMs(): number | undefined {
    return this.#options.mode === 'automatic' ? this.#cycleMs : undefined;
  }

  /** Undefined: the answer comes with the end of the last move. */
  ask(
    call: number,
    { dryRun, movesMax }: RebalanceRequest,
    view: ClusterView,
    nowMs: number,
    onTheWay: OnTheWay,
  ): RebalanceAnswer | undefined {
    if (!Number.isInteger(movesMax) || movesMax < 1 || movesMax > rebalanceLimits.movesMax) {
      const message = `the number of moves is 1 to ${rebalanceLimits.movesMax}`;
      return { call, outcome: failure('BAD_ARGUMENT', message) };
    }
    if (!dryRun && this.#isBusy()) {
      return { call, outcome: failure('PRECONDITION', 'another rebalance is under way') };
    }
    const planned = planRebalance(planNodes(view, nowMs, onTheWay), this.#options, { movesMax, isManual: true });
    if (!planned.ok) return { call, outcome: planned };
    const plan = planned.value;
    if (dryRun || plan.moves.length === 0) {
      return { call, outcome: success({ ...plan, dryRun, started: 0, failed: [] }) };
    }
    this.#moves = [...plan.moves];
    this.#asked = { call, plan, started: 0, failed: [] };
    return undefined;
  }

  /** Looks, if it is time. */
  cycle(view: ClusterView, nowMs: number, onTheWay: OnTheWay): void {
    if (this.#options.mode !== 'automatic' || nowMs < this.#cycleMs) return;
    this.#cycleMs = nowMs + this.#options.intervalMs;
    this.#recentMs = this.#recentMs.filter((atMs) => nowMs - atMs < hourMs);
    if (this.#recentMs.length >= this.#options.movesPerHourMax) return;
    if (this.#isBusy() || view.unassigned.size > 0 || view.releasing.size > 0) return;
    const planned = planRebalance(planNodes(view, nowMs, onTheWay), this.#options, { movesMax: 1, isManual: false });
    if (!planned.ok || planned.value.moves.length === 0) return;
    this.#moves = [...planned.value.moves];
    this.#recentMs.push(nowMs);
  }

  /** The next move as a task; moves that have become impossible are skipped and noted. */
  next(view: ClusterView): Task | undefined {
    for (let move = this.#moves.shift(); move !== undefined; move = this.#moves.shift()) {
      const node = view.nodes.get(move.from);
      const to = view.nodes.get(move.to);
      const held = node?.assignments.get(move.name);
      if (node === undefined || held === undefined || held.record.releasing !== undefined) {
        this.#note(move.name, 'it has moved meanwhile');
      } else if (to === undefined || !isActive(to) || !isActive(node)) {
        this.#note(move.name, 'one of its nodes is no longer active');
      } else {
        this.#begun.add(move.name);
        return { kind: 'release', node, held, reason: 'rebalance', to };
      }
    }
    return undefined;
  }

  /** A task of `next` has ended, well or with a reason. */
  ended(name: string, error: string | undefined): void {
    if (!this.#begun.delete(name)) return;
    this.#note(name, error);
  }

  /** The answer to who asked, once. */
  answer(): RebalanceAnswer | undefined {
    if (this.#asked === undefined || this.#isMoving()) return undefined;
    const { call, plan, started, failed } = this.#asked;
    this.#asked = undefined;
    return { call, outcome: success({ ...plan, dryRun: false, started, failed }) };
  }

  /** The leader is none any more. */
  abandon(error: RemusterError): RebalanceAnswer | undefined {
    const asked = this.#asked;
    this.#asked = undefined;
    this.#moves = [];
    return asked && { call: asked.call, outcome: { ok: false, error } };
  }

  #note(name: string, error: string | undefined): void {
    if (this.#asked === undefined) return;
    if (error === undefined) this.#asked.started += 1;
    else this.#asked.failed.push({ name, why: error });
  }

  #isMoving(): boolean {
    return this.#moves.length > 0 || this.#begun.size > 0;
  }

  #isBusy(): boolean {
    return this.#asked !== undefined || this.#isMoving();
  }
}

export function planNodes(view: ClusterView, nowMs: number, onTheWay: OnTheWay): readonly PlanNode[] {
  const nodes = view.activeNodes();
  const loads = loadsOf(nodes, onTheWay);
  return nodes.map((node, index) => {
    const { id, count, weight, report } = loads[index] as NodeLoad;
    return { id, count: count - node.releasing, weight, report, movable: movableOf(node, nowMs) };
  });
}

function movableOf(node: KnownNode, nowMs: number): PlanNode['movable'] {
  return [...node.assignments.values()]
    .filter(({ record }) => record.releasing === undefined)
    .map(({ text, record, sinceMs }) => ({
      name: text,
      weight: record.hint.weight,
      isAtHome: record.hint.preferred === node.id,
      settledMs: nowMs - sinceMs,
    }));
}
