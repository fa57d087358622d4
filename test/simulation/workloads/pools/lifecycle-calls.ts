/**
 * Calls of one pool lifecycle, sent through the creating node and retried under the same id. Reports a history of this
 * lifecycle only.
 */
import { type CallId, formatCallId } from '../../../../src/base/ids.ts';
import type { Outcome } from '../../../../src/base/errors.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { CallResult } from '../../../../src/containers/contract.ts';
import { encodeValue } from '../../../../src/messages/codec/value.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { NodeClient } from './node-client.ts';
import {
  historyKeysOf,
  targetContainersOf,
  drawCellCall,
  type PoolShape,
  replyTextsOf,
  type PlannedCellCall,
  methodCallOf,
} from './cell-calls.ts';
import type { SimulatedSession } from './client-session.ts';
import { poolNameOfLabel } from './pool-label.ts';

const timeoutsMs = [900, 3_000, 9_000];
const attemptsMax = 3;

export type LifecycleCallsOptions = {
  /** Its name is its label. */
  readonly pool: PoolShape;
  /** Who has told of it. */
  readonly creator: NodeClient;
  readonly session: SimulatedSession;
  readonly random: Random;
  readonly observe: WorkloadContext['observe'];
  readonly nextRequest: () => number;
  readonly acknowledged: (call: string, pool: string, containers: readonly number[] | undefined) => void;
};

type Open = { readonly id: CallId; readonly wish: PlannedCellCall; attempts: number };

export class LifecycleCalls {
  readonly #spec: LifecycleCallsOptions;
  readonly #idle: () => void;
  #open = 0;
  #isDeleting = false;
  #lastSeen = '';

  /** `idle` each time that none is under way any more. */
  constructor(spec: LifecycleCallsOptions, idle: () => void) {
    this.#spec = spec;
    this.#idle = idle;
  }

  get isIdle(): boolean {
    return this.#open === 0;
  }

  /** From now on the pool may be unknown. */
  startDeleting(): void {
    this.#isDeleting = true;
  }

  call(): void {
    const { pool, session, random, observe } = this.#spec;
    const id = session.begin();
    const wish = drawCellCall(random, pool, formatCallId(id), this.#lastSeen);
    for (const { client, key } of historyKeysOf(session.name, wish))
      observe({ kind: 'called', order: { client, number: id.counter, attempt: 1, key, action: wish.action } });
    this.#open += 1;
    this.#send({ id, wish, attempts: 0 });
  }

  #send(open: Open): void {
    const { creator, session, random, nextRequest } = this.#spec;
    open.attempts += 1;
    if (!creator.isAlive) return this.#over(open);
    const { id, wish } = open;
    const { method, args } = methodCallOf(wish);
    const timeoutMs = random.pick(timeoutsMs) * random.between(0.5, 1);
    const call = {
      pool: poolNameOfLabel(wish.pool.name),
      method,
      args: encodeValue(args).slice(),
      route: wish.route,
      id,
    };
    const lowestPending = session.lowestOpen;
    creator.request<CallResult>(
      {
        ...{ request: nextRequest(), timeoutMs },
        ask: (core, done) => core.containers?.calls.call({ ...call, lowestPending, timeoutMs }, done),
      },
      (outcome) => this.#ended(open, outcome),
    );
  }

  #ended(open: Open, outcome: Outcome<CallResult> | undefined): void {
    const { pool, acknowledged } = this.#spec;
    if (outcome?.ok === true) {
      if (open.wish.action.kind !== 'read')
        acknowledged(formatCallId(open.id), pool.name, targetContainersOf(open.wish));
      this.#answered(open, outcome.value);
    } else if (outcome !== undefined) this.#failed(open, outcome.error);
    const isOver = outcome?.ok === true || open.attempts >= attemptsMax || this.#isDeleting;
    if (isOver) this.#over(open);
    else this.#send(open);
  }

  #failed({ id }: Open, { code, message }: (Outcome<never> & { ok: false })['error']): void {
    const { pool, creator, observe } = this.#spec;
    const [call, isDeleting] = [formatCallId(id), this.#isDeleting];
    observe({ kind: 'creatorRefused', pool: pool.name, node: creator.name, call, code, isDeleting });
    if (!isDeleting || code !== 'UNKNOWN_POOL') observe({ kind: 'callFailed', call, code, message });
  }

  #answered({ id, wish }: Open, result: CallResult): void {
    const { session, observe } = this.#spec;
    const texts = replyTextsOf(result);
    for (const [at, { client }] of historyKeysOf(session.name, wish).entries()) {
      const saw = texts[at] ?? 'nothing';
      observe({ kind: 'answered', order: { client, number: id.counter }, saw });
      if (wish.action.kind !== 'put') this.#lastSeen = saw;
    }
  }

  #over({ id }: Open): void {
    this.#spec.session.close(id);
    this.#open -= 1;
    if (this.#open === 0) this.#idle();
  }
}
