/**
 * Forwards commands to the leader, or to the one node that can execute them, with a hop limit. Each send is executed at
 * most once.
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
type AdminCommandMessage = Extract<Message, { readonly kind: 'adminCommand' }>;

export type LeaderCommandPorts = {
  readonly self: NodeId;
  readonly streams: Pick<Streams, 'request'>;
  readonly leadership: { view(): LeadershipView; isLeading(): boolean };
  readonly locate: (id: NodeId) => Address | undefined;
  /** Undefined unless this node is a manager. */
  readonly group: GroupCommands | undefined;
  readonly backups: RegistryBackups | undefined;
  readonly assigner: AssignerHost | undefined;
  readonly placer?: Pick<PlacerHost, 'requestMove'> | undefined;
  /** This node leaves the cluster for good. */
  readonly leave: (args: unknown, done: Done<object>) => void;
};

const hopsMax = 3;
const marginMs = 100;
const leave = 'leave';
const admin = 'admin';
/** Verbs that the receiving node executes, leader or not. */
const nodeVerbs: ReadonlySet<string> = new Set([leave, admin]);

export class LeaderCommands {
  readonly #ports: LeaderCommandPorts;
  #adminHandler: (command: unknown, done: Done<object>) => void = (_order, done) => done(failure('UNKNOWN_METHOD'));

  constructor(ports: LeaderCommandPorts) {
    this.#ports = ports;
  }

  /** Sends a command of an operator of this node to the leader. Arguments and reply are JSON. */
  send(verb: LeaderCommandVerb, args: object, timeoutMs: number, done: Done<unknown>): void {
    this.handle({ kind: 'adminCommand', verb, args: JSON.stringify(args), hops: 0 }, timeoutMs, parseReply(done));
  }

  /** Makes that node leave the cluster for good. */
  sendLeave(node: NodeId, args: object, timeoutMs: number, done: Done<unknown>): void {
    const command: AdminCommandMessage = { kind: 'adminCommand', verb: leave, args: JSON.stringify(args), hops: 0 };
    if (node === this.#ports.self) return this.handle(command, timeoutMs, parseReply(done));
    const to = this.#ports.locate(node);
    if (to === undefined) return done(failure('UNREACHABLE', 'membership has no address of that node'));
    this.#forward(to, command, timeoutMs, parseReply(done));
  }

  /** Sends a command to a node of another datacenter, which executes it there. */
  forwardToDatacenter(to: Address, args: object, timeoutMs: number, done: Done<unknown>): void {
    this.#forward(
      to,
      { kind: 'adminCommand', verb: admin, args: JSON.stringify(args), hops: 0 },
      timeoutMs,
      parseReply(done),
    );
  }

  /** Sets the handler of commands that nodes of other datacenters forward. */
  setAdminHandler(execute: (command: unknown, done: Done<object>) => void): void {
    this.#adminHandler = execute;
  }

  /** A command from this node or from another one. */
  handle(command: AdminCommandMessage, timeoutMs: number, done: Done<string>): void {
    if (nodeVerbs.has(command.verb) || this.#ports.leadership.isLeading())
      return this.#execute(command, timeoutMs, done);
    const { leader } = this.#ports.leadership.view();
    const to = leader === undefined || leader === this.#ports.self ? undefined : this.#ports.locate(leader);
    if (to === undefined) return done(failure('NO_QUORUM', 'no manager leads at the moment', 'no'));
    if (command.hops >= hopsMax)
      return done(failure('NOT_LEADER', 'the leader changed while the command was forwarded: retry', 'no'));
    this.#forward(to, command, timeoutMs, done);
  }

  #forward(to: Address, command: AdminCommandMessage, timeoutMs: number, done: Done<string>): void {
    const body = encodeMessage({ ...command, hops: command.hops + 1 });
    this.#ports.streams.request(to, body, Math.max(marginMs, timeoutMs - marginMs), (outcome) => {
      if (!outcome.ok) return done(outcome);
      const message = tryDecodeMessage(outcome.value);
      if (message?.kind === 'adminCommandReply') return done(success(message.answer));
      done(failure('MALFORMED', 'the reply of the other node is not an adminCommandReply'));
    });
  }

  #execute({ verb, args }: AdminCommandMessage, timeoutMs: number, done: Done<string>): void {
    try {
      this.#perform(verb, JSON.parse(args) as unknown, timeoutMs, (outcome) => {
        done(outcome.ok ? success(JSON.stringify(outcome.value)) : outcome);
      });
    } catch (error) {
      if (isRemusterError(error)) return done({ ok: false, error });
      if (!(error instanceof SyntaxError)) throw error;
      done(failure('BAD_ARGUMENT', 'the arguments of the command are not JSON'));
    }
  }

  #perform(verb: string, args: unknown, timeoutMs: number, done: Done<object>): void {
    const { group, backups, assigner } = this.#ports;
    const refuse = (): void =>
      done(
        failure(
          'PRECONDITION',
          'etcd keeps the registry: there is no manager group to change; back up etcd with its own tools',
          'no',
        ),
      );
    switch (verb) {
      case 'rebalance':
        return assigner === undefined ? refuse() : assigner.rebalance(rebalanceArguments(args), done);
      case 'migrate':
        return this.#migrate(args, done);
      case 'change-group':
        return group === undefined ? refuse() : group.change(args, timeoutMs, done);
      case 'transfer':
        return group === undefined ? refuse() : group.transfer(args, timeoutMs, done);
      case 'backup-part':
        return backups === undefined ? refuse() : backups.read(args, timeoutMs, done);
      case 'restore-part':
        return backups === undefined ? refuse() : backups.write(args, timeoutMs, done);
      case leave:
        return this.#ports.leave(args, done);
      case admin:
        return this.#adminHandler(args, done);
      default:
        return done(failure('UNKNOWN_METHOD', `this version has no command ${JSON.stringify(verb)}`));
    }
  }

  #migrate(args: unknown, done: Done<object>): void {
    const { pool, container, to } = moveArguments(args);
    const { placer } = this.#ports;
    if (placer === undefined)
      return done(failure('PRECONDITION', 'this node is not a manager and cannot place containers', 'no'));
    placer.requestMove(pool, container, to, 'admin', (outcome) => done(outcome.ok ? success({}) : outcome));
  }
}

function moveArguments(args: unknown): { readonly pool: string; readonly container: number; readonly to: NodeId } {
  const fields = commandArguments(args);
  const { pool, to } = fields;
  const container = integerArgument(fields, 'container', { min: 0, max: Number.MAX_SAFE_INTEGER });
  if (typeof pool !== 'string' || typeof to !== 'string' || container === undefined)
    throw new RemusterError('BAD_ARGUMENT', 'a move needs pool, container and to');
  return { pool, container, to: parseNodeId(to) };
}

/** Parses the reply of another node. */
function parseReply(done: Done<unknown>): Done<string> {
  return (outcome) => {
    if (!outcome.ok) return done(outcome);
    const reply = parseJson(outcome.value);
    done(reply === undefined ? failure('MALFORMED', 'the reply to the command is not JSON') : success(reply));
  };
}

/** Undefined if the text is not JSON. Never throws, because the text comes from another node. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function rebalanceArguments(args: unknown): { readonly dryRun: boolean; readonly movesMax?: number } {
  const fields = commandArguments(args);
  const movesMax = integerArgument(fields, 'movesMax', { min: 1, max: rebalanceLimits.movesMax });
  return { dryRun: booleanArgument(fields, 'dryRun'), ...(movesMax === undefined ? {} : { movesMax }) };
}
