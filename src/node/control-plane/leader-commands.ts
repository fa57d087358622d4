/**
 * Commands that only the leader or one node can execute: forwarded with a hop limit, executed at most once per send.
 */
import { type Done, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import type { Address, Streams } from '../../base/ports.ts';
import type { LeadershipView } from '../../base/registry.ts';
import { type Message, encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import type { AssignerHost } from '../../placement/leader/assigner-host.ts';
import type { PlacerHost } from '../../placement/leader/placer-host.ts';
import { rebalanceLimits } from '../../placement/balance/rebalancer.ts';
import type { RegistryBackups } from './registry-backups.ts';
import type { GroupCommands } from './group-commands.ts';
import { integerArgument, booleanArgument, commandArguments } from './command-arguments.ts';

export type LeaderCommandVerb = 'rebalance' | 'migrate' | 'change-group' | 'transfer' | 'backup-part' | 'restore-part';
type OrderMessage = Extract<Message, { readonly kind: 'adminCommand' }>;

export type LeaderCommandParts = {
  readonly self: NodeId;
  readonly streams: Pick<Streams, 'request'>;
  readonly leadership: { view(): LeadershipView; isLeading(): boolean };
  readonly locate: (id: NodeId) => Address | undefined;
  /** Where this node has a seat in a group of managers. */
  readonly group: GroupCommands | undefined;
  readonly backups: RegistryBackups | undefined;
  readonly assigner: AssignerHost | undefined;
  readonly placer?: Pick<PlacerHost, 'requestMove'> | undefined;
  /** This node goes for good. */
  readonly leave: (words: unknown, done: Done<object>) => void;
};

const hopsMax = 3;
const marginMs = 100;
const leave = 'leave';
const admin = 'admin';
/** For the node that gets them, whoever leads. */
const personal: ReadonlySet<string> = new Set([leave, admin]);

export class LeaderCommands {
  readonly #parts: LeaderCommandParts;
  #admin: (order: unknown, done: Done<object>) => void = (_order, done) => done(failure('UNKNOWN_METHOD'));

  constructor(parts: LeaderCommandParts) {
    this.#parts = parts;
  }

  /** From an operator at this node, to the leader. Arguments and answer are JSON. */
  send(verb: LeaderCommandVerb, words: object, timeoutMs: number, done: Done<unknown>): void {
    this.handle({ kind: 'adminCommand', verb, args: JSON.stringify(words), hops: 0 }, timeoutMs, read(done));
  }

  /** That node is to leave the cluster for good. */
  sendLeave(node: NodeId, words: object, timeoutMs: number, done: Done<unknown>): void {
    const order: OrderMessage = { kind: 'adminCommand', verb: leave, args: JSON.stringify(words), hops: 0 };
    if (node === this.#parts.self) return this.handle(order, timeoutMs, read(done));
    const to = this.#parts.locate(node);
    if (to === undefined) return done(failure('UNREACHABLE', 'membership knows no address of that node'));
    this.#pass(to, order, timeoutMs, read(done));
  }

  /** To a node of another datacenter, which carries it out there. */
  forwardToDatacenter(to: Address, words: object, timeoutMs: number, done: Done<unknown>): void {
    this.#pass(to, { kind: 'adminCommand', verb: admin, args: JSON.stringify(words), hops: 0 }, timeoutMs, read(done));
  }

  /** Who carries out what nodes of other datacenters pass on. */
  setAdminHandler(carryOut: (order: unknown, done: Done<object>) => void): void {
    this.#admin = carryOut;
  }

  /** From here or from another node. */
  handle(order: OrderMessage, timeoutMs: number, done: Done<string>): void {
    if (personal.has(order.verb) || this.#parts.leadership.isLeading()) return this.#carryOut(order, timeoutMs, done);
    const { leader } = this.#parts.leadership.view();
    const to = leader === undefined || leader === this.#parts.self ? undefined : this.#parts.locate(leader);
    if (to === undefined) return done(failure('NO_QUORUM', 'no node leads at this moment', 'no'));
    if (order.hops >= hopsMax) return done(failure('NOT_LEADER', 'the leader changes too fast; try again', 'no'));
    this.#pass(to, order, timeoutMs, done);
  }

  #pass(to: Address, order: OrderMessage, timeoutMs: number, done: Done<string>): void {
    const body = encodeMessage({ ...order, hops: order.hops + 1 });
    this.#parts.streams.request(to, body, Math.max(marginMs, timeoutMs - marginMs), (outcome) => {
      if (!outcome.ok) return done(outcome);
      const message = tryDecodeMessage(outcome.value);
      if (message?.kind === 'adminCommandReply') return done(success(message.answer));
      done(failure('MALFORMED', 'the other node answered something else'));
    });
  }

  #carryOut({ verb, args }: OrderMessage, timeoutMs: number, done: Done<string>): void {
    try {
      this.#perform(verb, JSON.parse(args) as unknown, timeoutMs, (outcome) => {
        done(outcome.ok ? success(JSON.stringify(outcome.value)) : outcome);
      });
    } catch (error) {
      if (isRemusterError(error)) return done({ ok: false, error });
      if (!(error instanceof SyntaxError)) throw error;
      done(failure('BAD_ARGUMENT', 'the arguments of the order are no JSON'));
    }
  }

  #perform(verb: string, words: unknown, timeoutMs: number, done: Done<object>): void {
    const { group, backups, assigner } = this.#parts;
    const without = (): void =>
      done(
        failure(
          'PRECONDITION',
          'the registry is kept by etcd: there is no group of managers, and etcd is backed up',
          'no',
        ),
      );
    switch (verb) {
      case 'rebalance':
        return assigner === undefined ? without() : assigner.rebalance(rebalanceIn(words), done);
      case 'migrate':
        return this.#migrate(words, done);
      case 'change-group':
        return group === undefined ? without() : group.change(words, timeoutMs, done);
      case 'transfer':
        return group === undefined ? without() : group.transfer(words, timeoutMs, done);
      case 'backup-part':
        return backups === undefined ? without() : backups.read(words, timeoutMs, done);
      case 'restore-part':
        return backups === undefined ? without() : backups.write(words, timeoutMs, done);
      case leave:
        return this.#parts.leave(words, done);
      case admin:
        return this.#admin(words, done);
      default:
        return done(failure('UNKNOWN_METHOD', `this version does not know the order ${verb}`));
    }
  }

  #migrate(words: unknown, done: Done<object>): void {
    const { pool, container, to } = migrationIn(words);
    const { placer } = this.#parts;
    if (placer === undefined) return done(failure('PRECONDITION', 'this node places no containers', 'no'));
    placer.requestMove(pool, container, to, 'admin', (outcome) => done(outcome.ok ? success({}) : outcome));
  }
}

function migrationIn(words: unknown): { readonly pool: string; readonly container: number; readonly to: NodeId } {
  const fields = commandArguments(words);
  const { pool, to } = fields;
  const container = integerArgument(fields, 'container', { min: 0, max: Number.MAX_SAFE_INTEGER });
  if (typeof pool !== 'string' || typeof to !== 'string' || container === undefined)
    throw new RemusterError('BAD_ARGUMENT', 'a container is moved by pool, container and to');
  return { pool, container, to: parseNodeId(to) };
}

/** Written by another node of ours, so it is JSON. */
function read(done: Done<unknown>): Done<string> {
  return (outcome) => {
    if (!outcome.ok) return done(outcome);
    const answer = jsonIn(outcome.value);
    done(answer === undefined ? failure('MALFORMED', 'the answer to the order is no JSON') : success(answer));
  };
}

/** Undefined for what is no JSON: another node said it, and its mistake must not be ours. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function rebalanceIn(words: unknown): { readonly dryRun: boolean; readonly movesMax?: number } {
  const fields = commandArguments(words);
  const movesMax = integerArgument(fields, 'movesMax', { min: 1, max: rebalanceLimits.movesMax });
  return { dryRun: booleanArgument(fields, 'dryRun'), ...(movesMax === undefined ? {} : { movesMax }) };
}
