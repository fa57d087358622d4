/** Observes one simulated voter: what it sends, and its view after each event. Never changes anything. */
import type { GroupHandle, GroupView } from '../../../../src/consensus/state/state-machine.ts';
import type { ConsensusMessage } from '../../../../src/messages/consensus.ts';
import type { Observation } from '../../checking/workload.ts';
import type { CellReply } from './replicated-cells.ts';

export type GroupObserverPorts = {
  readonly observe: (observation: Observation) => void;
  readonly nowMs: () => number;
  readonly nameOf: (id: string) => string;
  /** The disk of that node has this log entry at this instant. */
  readonly hasOnDisk: (node: string, index: number) => boolean;
  /** All nodes that rely on a leader lease. */
  readonly leased: () => readonly string[];
};

export class GroupObserver {
  readonly #node: string;
  readonly #all: GroupObserverPorts;
  #group: GroupHandle<CellReply> | undefined;
  #sentTerm = 0;
  #ledTerm = 0;
  #commitIndex = 0;
  #leased = '';

  constructor(node: string, all: GroupObserverPorts) {
    this.#node = node;
    this.#all = all;
  }

  nowMs(): number {
    return this.#all.nowMs();
  }

  watch(group: GroupHandle<CellReply>): void {
    this.#group = group;
    group.leadership.watch({
      elected: (fence) => this.#all.observe({ kind: 'elected', node: this.#node, fence }),
    });
  }

  /** Runs an event of the node and reads its view afterwards. */
  observeAround(run: () => void): void {
    run();
    const group = this.#group;
    if (group === undefined) return;
    const view = group.view();
    if (view.self === 'leader') this.#observeLeader(view);
    if (group.leadership.isLeading()) this.#observeLeases();
    else this.#leased = '';
  }

  onSend(to: string, message: ConsensusMessage): void {
    const { observe } = this.#all;
    if (message.kind === 'preVote') return;
    const { term } = message;
    if (term !== this.#sentTerm) observe({ kind: 'termSent', node: this.#node, term });
    this.#sentTerm = term;
    if (message.kind === 'requestVoteReply' && message.granted)
      observe({ kind: 'voted', node: this.#node, term, candidate: to });
    if (message.kind === 'appendEntriesReply' && message.ok)
      observe({ kind: 'logAcknowledged', node: this.#node, term, index: message.index });
  }

  #observeLeader({ term, commitIndex, members }: GroupView): void {
    const isNew = term !== this.#ledTerm;
    if (!isNew && commitIndex === this.#commitIndex) return;
    const voters = members.filter(({ standing }) => standing === 'voter').map(({ id }) => this.#all.nameOf(id));
    const { observe } = this.#all;
    if (isNew) observe({ kind: 'leads', node: this.#node, term, voters });
    else {
      const isDurable = this.#all.hasOnDisk(this.#node, commitIndex);
      observe({ kind: 'commitAdvanced', node: this.#node, term, index: commitIndex, isDurable, voters });
    }
    this.#ledTerm = term;
    this.#commitIndex = commitIndex;
  }

  #observeLeases(): void {
    const nodes = this.#all.leased();
    const text = nodes.join();
    if (text !== this.#leased) this.#all.observe({ kind: 'leasesHeld', nodes });
    this.#leased = text;
  }
}
