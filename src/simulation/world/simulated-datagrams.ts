/**
 * The Datagrams port on the simulated network. Drops a datagram for another node id or cluster, as the encryption of
 * real ones does; bounds what arrives while the process is paused.
 */
import { assert } from '../../base/assert.ts';
import { success } from '../../base/errors.ts';
import { type Datagrams, datagramBytesMax } from '../../base/ports.ts';
import type { SimulationLog } from '../engine/simulation-log.ts';
import type { BoundPort } from './bound-port.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { SimulatedNetwork } from '../engine/simulated-network.ts';

const receiveBufferMax = 512;
/** Overwrites a body after the call that got it, because the receiver must not keep it. */
export const poisonByte = 0xdd;

export type SimulatedDatagramContext = {
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  hostAt(address: string): SimulatedHost | undefined;
};

export function simulatedDatagrams(world: SimulatedDatagramContext, self: BoundPort): Datagrams {
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
      self.process.after(0, () => done(success(undefined)));
    },
  };
}

function deliver(world: SimulatedDatagramContext, from: BoundPort, to: BoundPort, body: Uint8Array): void {
  if (to.cluster !== from.cluster || to.process.deferredCount >= receiveBufferMax) return;
  to.process.run(() => {
    world.log.detail(to.host.name, () => `receives a datagram of ${body.length} bytes from ${from.identity.name}`);
    const copy = body.slice();
    to.datagram?.(from.identity, copy);
    copy.fill(poisonByte);
  });
}
