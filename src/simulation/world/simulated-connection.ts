/**
 * One side of a simulated connection: delivers in order and once, or closes. A cut link holds data until both sides
 * give up. Knows nothing of requests or streams.
 *
 *   dialing --accepted--> open --close, reset, silence--> closed
 *      '-------- refused, timed out, silence --------------^
 *
 * A cut link holds what is under way; after `silenceMs` of it both sides give the line up, as keepalives would. A
 * process that dies on a host that lives resets its lines; a host without power says nothing at all.
 */
import type { Done } from '../../base/errors.ts';
import type { Address, Identity } from '../../base/ports.ts';
import type { ByteStreamSide } from './byte-stream-side.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { BoundPort } from './bound-port.ts';
import type { ConnectionTable } from './connection-table.ts';

const frameBytes = 40;

/** What one side does with what the other side sends; see streams.ts. */
export type ConnectionReceiver = {
  /** The line that was dialled is answered. */
  accepted(line: SimulatedConnection, peer: SimulatedConnection): void;
  requested(line: SimulatedConnection, body: Uint8Array, remainingMs: number, reply: Done<Uint8Array>): void;
  notified(line: SimulatedConnection, body: Uint8Array): void;
  opened(line: SimulatedConnection, opening: Uint8Array, opener: ByteStreamSide): void;
};

type QueuedTransfer = { readonly sizeBytes: number; readonly act: (there: SimulatedConnection) => void };

export class SimulatedConnection {
  readonly self: BoundPort;
  readonly address: Address;
  readonly receiver: ConnectionReceiver;
  readonly #board: ConnectionTable;
  readonly #atClose = new Set<(reason: string) => void>();
  readonly #waiting: QueuedTransfer[] = [];
  #held: QueuedTransfer[] = [];
  readonly #far: SimulatedHost | undefined;
  #peer: SimulatedConnection | undefined;
  #state: 'dialing' | 'open' | 'closed' = 'dialing';
  /** Nobody resends what the network still holds. */
  #abandoned = false;
  #queuedBytes = 0;
  #lastArrivalMs = 0;
  #drained: (() => void)[] = [];

  constructor(board: ConnectionTable, self: BoundPort, address: Address, receiver: ConnectionReceiver) {
    this.#board = board;
    this.self = self;
    this.receiver = receiver;
    this.address = address;
    this.#far = board.hostAt(address.host);
    if (this.#far !== undefined) board.add(this, self.host.index, this.#far.index);
  }

  get state(): 'dialing' | 'open' | 'closed' {
    return this.#state;
  }

  get peer(): SimulatedConnection | undefined {
    return this.#peer;
  }

  /** Who is at the other side, once that is proved. */
  get remote(): Identity | undefined {
    return this.#peer?.self.identity;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get remoteHost(): SimulatedHost | undefined {
    return this.#far;
  }

  /** Both sides are there: what waited sets out. */
  open(peer: SimulatedConnection): void {
    this.#peer = peer;
    this.#state = 'open';
    for (const freight of this.#waiting.splice(0)) this.#dispatch(freight);
  }

  /** Does something at the other side, after everything that was sent before. */
  send(bodyBytes: number, act: (there: SimulatedConnection) => void): void {
    if (this.#state === 'closed') return;
    const freight = { sizeBytes: bodyBytes + frameBytes, act };
    this.#queuedBytes += freight.sizeBytes;
    if (this.#state === 'dialing') this.#waiting.push(freight);
    else this.#dispatch(freight);
  }

  /** Runs when the line closes; the result takes it back. */
  onClose(run: (reason: string) => void): () => void {
    this.#atClose.add(run);
    return () => this.#atClose.delete(run);
  }

  /** Runs when the queue is at most half full, or the line is gone. */
  onceDrained(run: () => void): void {
    this.#drained.push(run);
    this.#noticeDrained();
  }

  /** This side is over at once; nothing is said to the other one. */
  close(reason: string): void {
    this.#abandoned = true;
    this.#held = [];
    this.#end(reason);
  }

  /** This side is over, and the other one hears of it behind everything that is under way. */
  closeGracefully(reason: string): void {
    this.send(0, (there) => there.close(reason));
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#waiting.length = 0;
    if (this.#far !== undefined) this.#board.remove(this, this.self.host.index, this.#far.index);
    for (const run of this.#atClose) run(reason);
    this.#atClose.clear();
    this.#noticeDrained();
  }

  #dispatch(freight: QueuedTransfer): void {
    const [from, to] = [this.self.host.index, (this.#far as SimulatedHost).index];
    const { timeline, network } = this.#board;
    const arriveMs = timeline.nowMs + network.segmentMs(from, to, freight.sizeBytes);
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, arriveMs);
    timeline.at(this.#lastArrivalMs, () => this.#arrive(freight));
  }

  #arrive(freight: QueuedTransfer): void {
    const [from, to] = [this.self.host.index, (this.#far as SimulatedHost).index];
    if (this.#held.length > 0) {
      this.#held.push(freight);
    } else if (this.#board.network.isCut(from, to)) {
      if (this.#abandoned) return;
      this.#held.push(freight);
      this.#board.network.onceMended(from, to, () => this.#mended());
    } else {
      this.#deliver(freight);
    }
  }

  #mended(): void {
    const held = this.#held;
    this.#held = [];
    for (const freight of held) this.#arrive(freight);
  }

  #deliver(freight: QueuedTransfer): void {
    const peer = this.#peer as SimulatedConnection;
    if (peer.#state === 'closed') {
      if (peer.self.host.powered) this.#reset();
      return;
    }
    peer.self.process.run(() => {
      this.#queuedBytes -= freight.sizeBytes;
      if (peer.#state !== 'closed') freight.act(peer);
      this.#noticeDrained();
    });
  }

  /** The other host answers that it knows nothing of this line. */
  #reset(): void {
    const { timeline, network } = this.#board;
    const [from, to] = [(this.#far as SimulatedHost).index, this.self.host.index];
    timeline.after(network.segmentMs(from, to, frameBytes), () => {
      if (!network.isCut(from, to)) this.close('reset');
    });
  }

  #noticeDrained(): void {
    if (this.#drained.length === 0) return;
    if (this.#state !== 'closed' && this.#queuedBytes > this.#board.limits.queueBytesMax / 2) return;
    for (const run of this.#drained.splice(0)) this.self.process.after(0, run);
  }
}
