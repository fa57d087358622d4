/**
 * The greeter: how nodes get to know each other and notice silence. It decides; the loop acts.
 *
 *   start            -> introduce to every seed, over a stream, until it answers
 *   introduce        -> introduced: who I am and whom I have heard
 *   introduced       -> learn them; the first answer means that this node has joined
 *   each interval    -> hello to those with the oldest contact, a few entries riding along
 *   hello            -> helloAck, which is proof of life for both
 *   silence          -> probe-failed, then dead, then forgotten; any word from them undoes it
 *   stop             -> goodbye to the living, and silence from then on
 */
import { unreachable } from '../base/assert.ts';
import { MessageIds, type NodeId } from '../base/ids.ts';
import type { Expired, PersistFailed, Schedule } from '../base/loop.ts';
import type { Address, Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { Message } from '../messages/catalogue.ts';
import type { GreeterConfig, GreeterEffect, GreeterInput, GreeterTimer } from './greeter-words.ts';
import { forgetPeer, rememberPeer } from './known-peers.ts';
import { MemberTable, isUp } from './member-table.ts';
import type { Member, MemberEvent, MemberView } from './member.ts';
import { News } from './news.ts';
import { Rounds } from './rounds.ts';
import { Seeds } from './seeds.ts';

type Effects = (GreeterEffect | Schedule<GreeterTimer>)[];

const rememberedSeedsMax = 3;
const piggybackMax = 6;
const seedPauseIntervals = { first: 0.5, max: 20 } as const;
/** A goodbye goes to all by datagram, which is quick, and to this many also by stream, which is sure. */
const sureGoodbyesMax = 64;

export class Greeter {
  readonly #self: Identity;
  readonly #config: GreeterConfig;
  readonly #random: Random;
  readonly #messageIds: MessageIds;
  readonly #table: MemberTable;
  readonly #news: News;
  readonly #rounds: Rounds;
  #seeds: Seeds;
  #joined = false;
  #stopped = false;
  /** Ids whose entries are being written; they are unsaved again if that fails. */
  #saving: readonly NodeId[] = [];

  constructor(self: Identity, config: GreeterConfig, random: Random) {
    this.#self = self;
    this.#config = config;
    this.#random = random;
    this.#messageIds = new MessageIds(Number.parseInt(self.id.slice(0, 4), 16));
    this.#table = new MemberTable(self, config.membersMax);
    this.#news = new News(this.#table, piggybackMax);
    this.#rounds = new Rounds(this.#table, config);
    this.#seeds = this.#seedsAt(config.seeds);
  }

  get joined(): boolean {
    return this.#joined;
  }

  views(nowMs: number): MemberView[] {
    return this.#table.views(nowMs);
  }

  step(nowMs: number, input: GreeterInput | Expired<GreeterTimer> | PersistFailed): Effects {
    if (this.#stopped) return [];
    switch (input.kind) {
      case 'start':
        return this.#start(nowMs, input.remembered);
      case 'introduce':
        return [
          ...this.#heard(nowMs, input.from, input.known),
          { kind: 'reply', call: input.call, message: this.#introducedTo(input.from) },
        ];
      case 'introduced':
        return this.#introduced(nowMs, input);
      case 'introductionFailed':
        return this.#lookAgain(nowMs, input.by, this.#seeds.failed(input.by));
      case 'hello':
        return this.#answerHello(nowMs, input);
      case 'helloAck':
        return this.#answered(nowMs, input);
      case 'goodbye':
        return tell(this.#table.left(nowMs, input.from, input.reason));
      case 'remembered':
        return this.#saved(input.ok);
      case 'expired':
        return input.timer.kind === 'greet' ? this.#greet(nowMs) : this.#introduce(nowMs, input.timer.to);
      case 'stop':
        return this.#leave(input.reason);
      case 'persistFailed':
        return [];
      default:
        return unreachable(input);
    }
  }

  #start(nowMs: number, remembered: readonly Identity[]): Effects {
    for (const entry of remembered) this.#table.learned(nowMs, entry);
    this.#joined = this.#nobodyToJoin();
    this.#seeds = this.#seedsAt([
      ...this.#config.seeds,
      ...this.#random.shuffled(remembered).slice(0, rememberedSeedsMax),
    ]);
    const firstGreetMs = this.#random.between(0, this.#config.helloIntervalMs);
    return [
      ...(this.#joined ? [{ kind: 'joined' } as const] : []),
      ...this.#seeds.addresses.flatMap((address) => this.#introduce(nowMs, address)),
      { kind: 'schedule', atMs: nowMs + firstGreetMs, timer: { kind: 'greet' } },
    ];
  }

  #introduce(nowMs: number, to: Address): Effects {
    if (!this.#seeds.has(to)) return [];
    if (this.#joined && this.#livesAt(to)) return this.#lookAgain(nowMs, to, this.#seeds.answered(to));
    return [{ kind: 'request', to, message: { kind: 'introduce', self: this.#self, known: this.#living() } }];
  }

  #introduced(nowMs: number, input: GreeterInput & { kind: 'introduced' }): Effects {
    if (input.self.id === this.#self.id) {
      this.#seeds.drop(input.by);
      return this.#nobodyToJoin() ? this.#join() : [];
    }
    return [
      ...this.#heard(nowMs, input.self, input.known),
      ...this.#join(),
      ...this.#lookAgain(nowMs, input.by, this.#seeds.answered(input.by)),
    ];
  }

  #introducedTo(asker: Identity): Extract<Message, { kind: 'introduced' }> {
    return { kind: 'introduced', self: this.#self, known: this.#living().filter(({ id }) => id !== asker.id) };
  }

  /** True for the first node of a cluster: it was given no seed, or only itself. */
  #nobodyToJoin(): boolean {
    return !this.#config.seeds.some((address) => this.#seeds.has(address));
  }

  #join(): Effects {
    if (this.#joined) return [];
    this.#joined = true;
    return [{ kind: 'joined' }];
  }

  #lookAgain(nowMs: number, to: Address, pauseMs: number): Effects {
    return [{ kind: 'schedule', atMs: nowMs + pauseMs, timer: { kind: 'introduce', to } }];
  }

  #greet(nowMs: number): Effects {
    const { helloIntervalMs } = this.#config;
    return [
      ...tell(this.#table.swept(nowMs, this.#rounds.patience())),
      ...this.#rounds.due(nowMs).map((member) => this.#hello(nowMs, member)),
      ...this.#save(),
      { kind: 'schedule', atMs: nowMs + helloIntervalMs, timer: { kind: 'greet' } },
    ];
  }

  #hello(nowMs: number, member: Member): GreeterEffect {
    member.contactMs = nowMs;
    member.awaitedId = this.#messageIds.next(nowMs);
    const known = this.#news.forHello(member.entry.id);
    return { kind: 'datagram', to: member.entry, message: { kind: 'hello', messageId: member.awaitedId, known } };
  }

  #answerHello(nowMs: number, input: GreeterInput & { kind: 'hello' }): Effects {
    const known = this.#news.forAnswer(input.from.id);
    return [
      ...this.#heard(nowMs, input.from, input.known),
      { kind: 'datagram', to: input.from, message: { kind: 'helloAck', answers: input.messageId, known } },
    ];
  }

  /** Only the answer to the latest greeting proves life: an older one may have been on its way for long. */
  #answered(nowMs: number, input: GreeterInput & { kind: 'helloAck' }): Effects {
    const member = this.#table.get(input.from.id);
    if (member?.awaitedId !== input.answers) return [];
    member.awaitedId = undefined;
    return this.#heard(nowMs, input.from, input.known);
  }

  #heard(nowMs: number, from: Identity, known: readonly Identity[]): Effects {
    const events = this.#table.heard(nowMs, from);
    for (const entry of known) events.push(...this.#table.learned(nowMs, entry));
    for (const event of events) if (event.type === 'member.alive') this.#news.add(event.member.id);
    return tell(events);
  }

  #leave(reason: string): Effects {
    this.#stopped = true;
    const message = { kind: 'goodbye', reason } as const;
    this.#saving = [];
    const up = [...this.#table.values()].filter((member) => isUp(member.state));
    return [
      ...this.#save(),
      ...up.map(({ entry }) => ({ kind: 'datagram', to: entry, message }) as const),
      ...up.slice(0, sureGoodbyesMax).map(({ entry }) => ({ kind: 'notify', to: entry, message }) as const),
    ];
  }

  #save(): Effects {
    const { unsaved } = this.#table;
    if (this.#saving.length > 0 || unsaved.size === 0) return [];
    this.#saving = [...unsaved];
    unsaved.clear();
    const writes = this.#saving.map((id) => {
      const member = this.#table.get(id);
      return member === undefined || member.state === 'left' ? forgetPeer(id) : rememberPeer(member.entry);
    });
    return [{ kind: 'remember', writes }];
  }

  #saved(ok: boolean): Effects {
    if (!ok) for (const id of this.#saving) this.#table.unsaved.add(id);
    this.#saving = [];
    return [];
  }

  #living(): Identity[] {
    return [...this.#table.values()].filter((member) => member.state === 'alive').map((member) => member.entry);
  }

  #livesAt(address: Address): boolean {
    return this.#table
      .values()
      .some(({ entry, state }) => state === 'alive' && entry.host === address.host && entry.port === address.port);
  }

  #seedsAt(addresses: readonly Address[]): Seeds {
    const { first, max } = seedPauseIntervals;
    const pauses = { firstMs: this.#config.helloIntervalMs * first, maxMs: this.#config.helloIntervalMs * max };
    return new Seeds(this.#self, addresses, pauses, this.#random);
  }
}

function tell(events: readonly MemberEvent[]): Effects {
  return events.map((event) => ({ kind: 'event', event }));
}
