/**
 * The Datagrams port on the pretend network. Addressed to somebody: a datagram for an id that no longer listens at
 * that address is dropped, as unsealing would drop it. What arrives while the process is stalled waits in a receive
 * buffer with a bound, and the rest is lost.
 */
import { assert } from '../base/assert.ts';
import { success } from '../base/errors.ts';
import { type Datagrams, datagramBytesMax } from '../base/ports.ts';
import type { EventLog } from './event-log.ts';
import type { Listener } from './listener.ts';
import type { Host } from './host.ts';
import type { Network } from './network.ts';

const receiveBufferMax = 512;
/** What a body is filled with once the call that was given it has returned: nobody may keep it. */
export const spoilt = 0xdd;

export type DatagramWorld = {
  readonly network: Network;
  readonly log: EventLog;
  hostAt(address: string): Host | undefined;
};

export function simulatedDatagrams(world: DatagramWorld, self: Listener): Datagrams {
  let open = true;
  return {
    send(to, body) {
      assert(body.length <= datagramBytesMax, `a datagram of ${body.length} bytes`);
      const host = world.hostAt(to.host);
      if (!open || host === undefined) return;
      const copy = body.slice();
      world.network.datagram(self.host.index, host.index, copy.length, () => {
        const listener = host.listeners.get(to.port);
        if (listener?.identity.id === to.id) deliver(world, self, listener, copy);
      });
    },
    receive(handler) {
      self.datagram = (from, body) => {
        if (open) handler(from, body);
      };
    },
    close(done) {
      open = false;
      self.life.after(0, () => done(success(undefined)));
    },
  };
}

function deliver(world: DatagramWorld, from: Listener, to: Listener, body: Uint8Array): void {
  if (to.cluster !== from.cluster || to.life.postponed >= receiveBufferMax) return;
  to.life.enter(() => {
    world.log.detail(to.host.name, () => `hears a datagram of ${body.length} bytes from ${from.identity.name}`);
    const copy = body.slice();
    to.datagram?.(from.identity, copy);
    copy.fill(spoilt);
  });
}
