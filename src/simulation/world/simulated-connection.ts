/**
 * One side of a simulated connection: delivers in order and once, or closes. Knows nothing of requests or streams.
 *
 *   dialing --accepted--> open --close, reset, silence--> closed
 *      '-------- refused, timed out, silence --------------^
 *
 * A cut link holds transfers in flight; after `silenceMs` both sides close, as with keepalives. A process that exits on
 * a host with power resets its connections; a host without power sends nothing.
 */
import type { Done } from '../../base/errors.ts';
import type { Address, Identity } from '../../base/ports.ts';
import type { ByteStreamSide } from './byte-stream-side.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { BoundPort } from './bound-port.ts';
import type { ConnectionTable } from './connection-table.ts';

const frameBytes = 40;

/** Handles what the peer sends (simulated-streams.ts). */
export type ConnectionReceiver = {
  /** The peer accepted the connection that this side dialed. */
  accepted(connection: SimulatedConnection, peer: SimulatedConnection): void;
  requested(connection: SimulatedConnection, body: Uint8Array, remainingMs: number, reply: Done<Uint8Array>): void;
  notified(connection: SimulatedConnection, body: Uint8Array): void;
  opened(connection: SimulatedConnection, opening: Uint8Array, opener: ByteStreamSide): void;
};

type QueuedTransfer = { readonly sizeBytes: number; readonly act: (peer: SimulatedConnection) => void };

export class SimulatedConnection {
  readonly self: BoundPort;
  readonly address: Address;
  readonly receiver: ConnectionReceiver;
  readonly #table: ConnectionTable;
  readonly #onClose = new Set<(reason: string) => void>();
  readonly #waiting: QueuedTransfer[] = [];
  #held: QueuedTransfer[] = [];
  readonly #remoteHost: SimulatedHost | undefined;
  #peer: SimulatedConnection | undefined;
  #state: 'dialing' | 'open' | 'closed' = 'dialing';
  /** This side closed: transfers that the network holds are dropped. */
  #abandoned = false;
  #queuedBytes = 0;
  #lastArrivalMs = 0;
  #onceDrained: (() => void)[] = [];

  constructor(table: ConnectionTable, self: BoundPort, address: Address, receiver: ConnectionReceiver) {
    this.#table = table;
    this.self = self;
    this.receiver = receiver;
    this.address = address;
    this.#remoteHost = table.hostAt(address.host);
    if (this.#remoteHost !== undefined) table.add(this, self.host.index, this.#remoteHost.index);
  }

  get state(): 'dialing' | 'open' | 'closed' {
    return this.#state;
  }

  get peer(): SimulatedConnection | undefined {
    return this.#peer;
  }

  /** Identity of the peer, once the connection is open. */
  get remote(): Identity | undefined {
    return this.#peer?.self.identity;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get remoteHost(): SimulatedHost | undefined {
    return this.#remoteHost;
  }

  /** Both sides exist: sends what waited. */
  open(peer: SimulatedConnection): void {
    this.#peer = peer;
    this.#state = 'open';
    for (const transfer of this.#waiting.splice(0)) this.#dispatch(transfer);
  }

  /** Runs `act` at the peer, after everything that was sent before. */
  send(bodyBytes: number, act: (peer: SimulatedConnection) => void): void {
    if (this.#state === 'closed') return;
    const transfer = { sizeBytes: bodyBytes + frameBytes, act };
    this.#queuedBytes += transfer.sizeBytes;
    if (this.#state === 'dialing') this.#waiting.push(transfer);
    else this.#dispatch(transfer);
  }

  /** Runs when the connection closes; the result cancels it. */
  onClose(run: (reason: string) => void): () => void {
    this.#onClose.add(run);
    return () => this.#onClose.delete(run);
  }

  /** Runs when the queue is at most half full or the connection has closed. */
  onceDrained(run: () => void): void {
    this.#onceDrained.push(run);
    this.#notifyIfDrained();
  }

  /** Closes this side at once without a message to the peer. */
  close(reason: string): void {
    this.#abandoned = true;
    this.#held = [];
    this.#end(reason);
  }

  /** Closes this side; the peer closes after everything in flight. */
  closeGracefully(reason: string): void {
    this.send(0, (peer) => peer.close(reason));
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#waiting.length = 0;
    if (this.#remoteHost !== undefined) this.#table.remove(this, this.self.host.index, this.#remoteHost.index);
    for (const run of this.#onClose) run(reason);
    this.#onClose.clear();
    this.#notifyIfDrained();
  }

  #dispatch(transfer: QueuedTransfer): void {
    const [from, to] = [this.self.host.index, (this.#remoteHost as SimulatedHost).index];
    const { timeline, network } = this.#table;
    const arriveMs = timeline.nowMs + network.segmentMs(from, to, transfer.sizeBytes);
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, arriveMs);
    timeline.at(this.#lastArrivalMs, () => this.#arrive(transfer));
  }

  #arrive(transfer: QueuedTransfer): void {
    const [from, to] = [this.self.host.index, (this.#remoteHost as SimulatedHost).index];
    if (this.#held.length > 0) {
      this.#held.push(transfer);
    } else if (this.#table.network.isCut(from, to)) {
      if (this.#abandoned) return;
      this.#held.push(transfer);
      this.#table.network.onceMended(from, to, () => this.#onMended());
    } else {
      this.#deliver(transfer);
    }
  }

  #onMended(): void {
    const held = this.#held;
    this.#held = [];
    for (const transfer of held) this.#arrive(transfer);
  }

  #deliver(transfer: QueuedTransfer): void {
    const peer = this.#peer as SimulatedConnection;
    if (peer.#state === 'closed') {
      if (peer.self.host.powered) this.#reset();
      return;
    }
    peer.self.process.run(() => {
      this.#queuedBytes -= transfer.sizeBytes;
      if (peer.#state !== 'closed') transfer.act(peer);
      this.#notifyIfDrained();
    });
  }

  /** The remote host replies that it does not know the connection. */
  #reset(): void {
    const { timeline, network } = this.#table;
    const [from, to] = [(this.#remoteHost as SimulatedHost).index, this.self.host.index];
    timeline.after(network.segmentMs(from, to, frameBytes), () => {
      if (!network.isCut(from, to)) this.close('reset');
    });
  }

  #notifyIfDrained(): void {
    if (this.#onceDrained.length === 0) return;
    if (this.#state !== 'closed' && this.#queuedBytes > this.#table.limits.queueBytesMax / 2) return;
    for (const run of this.#onceDrained.splice(0)) this.self.process.after(0, run);
  }
}
