/** Puts the sealed datagrams of a node together on a UDP socket. */
import type { Socket as UdpSocket } from 'node:dgram';

import { type DatagramContext, SealedDatagrams } from './datagram/sealed-datagrams.ts';
import type { TransportCounters } from './shared/transport-counters.ts';
import type { TransportContext } from './transport-options.ts';

/** `renewed` is called when there is a new session that peers could be told of. */
export function openSealedDatagrams(common: TransportContext, udp: UdpSocket, renewed: () => void): SealedDatagrams {
  const { cluster, clock, log, admit, limits, counters, refusals, self, ring, handlerFailed } = common;
  const datagrams = new SealedDatagrams({
    ...{ cluster, clock, admit, limits, counters, refusals, self, ring, handlerFailed, renewed },
    ...datagramSocket(udp, counters),
  });
  udp.on('message', (packet, from) => datagrams.receivePacket(packet, { host: from.address, port: from.port }));
  udp.on('error', (error) => log('error', 'the datagram socket failed', { error: String(error) }));
  return datagrams;
}

/** A socket that was closed swallows what is sent, and may be closed again. */
function datagramSocket(udp: UdpSocket, counters: TransportCounters): Pick<DatagramContext, 'transmit' | 'shut'> {
  let isOpen = true;
  return {
    transmit: (packet, to) => {
      if (!isOpen) return;
      udp.send(packet, to.port, to.host, (error) => {
        if (error !== null) counters.add('datagrams.unsent');
      });
    },
    shut: (done) => {
      if (isOpen) udp.close(done);
      else queueMicrotask(done);
      isOpen = false;
    },
  };
}
