/**
 * Workload of byte streams larger than the credit. Every byte follows from its position, so receivers verify content.
 */
import { AssertionFailed } from '../../../../src/base/assert.ts';
import { nodeIdFrom } from '../../../../src/base/ids.ts';
import type { ByteStream, ByteStreamEvents, Identity, Streams } from '../../../../src/base/ports.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { Observation, WorkloadRun, WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedPorts } from '../../../../src/simulation/world/simulated-ports.ts';
import { type NodeContext, SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

const port = 7400;
/** Small, so that transfers use up the credit often. */
const creditBytes = 16 * 1024;
const chunkBytes = 2 * 1024;
const sizeBytesMax = 3 * creditBytes;
const pauseMsMax = 4_000;

type Transfers = { isStopped: boolean; count: number; readonly observe: (observation: Observation) => void };

export function transferWorkload(workload: WorkloadContext): WorkloadRun {
  const { seed, names, detailed, sink, observe } = workload;
  const state: Transfers = { isStopped: false, count: 0, observe };
  const world: SimulatedWorld<unknown> = new SimulatedWorld<unknown>({
    ...{ seed, names, detailed, sink, limits: { creditBytes } },
    boot: (ports, context) => boot(world, state, ports, context),
  });
  return {
    world,
    start: () => undefined,
    stopWork: () => {
      state.isStopped = true;
    },
    clusterOf: () => 'transfers',
    aliveViews: () => new Map(),
    durableValue: () => 0,
  };
}

function boot(world: SimulatedWorld<unknown>, state: Transfers, ports: SimulatedPorts, context: NodeContext): void {
  const { name, host, boots, index, random } = context;
  const id = nodeIdFrom(new Uint8Array(16).fill(index));
  const identity: Identity = { id, name, host, port, generation: boots, roles: ['worker'], dc: 'local' };
  const { streams } = ports.listen(identity, 'transfers');
  streams.serve({ request: refuse, notify: refuse, open: (_, opening, stream) => receive(opening, stream) });
  const sendNext = (): void => {
    if (state.isStopped) return;
    const to = world.host(random.pick(world.names)).address;
    send(state, streams, { node: name, to, random });
    ports.clock.schedule(random.between(0, pauseMsMax), sendNext);
  };
  ports.clock.schedule(random.between(0, pauseMsMax), sendNext);
}

function send(
  state: Transfers,
  streams: Streams,
  { node, to, random }: { readonly node: string; readonly to: string; readonly random: Random },
): void {
  const transfer = ++state.count;
  const sizeBytes = 1 + random.below(sizeBytesMax);
  let sentBytes = 0;
  let confirmed = false;
  const write = (): void => {
    for (; sentBytes < sizeBytes; sentBytes += chunkBytes) {
      if (!stream.write(pattern(sentBytes, Math.min(sentBytes + chunkBytes, sizeBytes)))) return;
    }
    stream.end();
  };
  const stream = streams.open({ host: to, port }, new TextEncoder().encode(String(sizeBytes)), {
    chunk: () => {
      confirmed = true;
    },
    writable: write,
    ended: ({ ok }) => state.observe({ kind: 'transferEnded', node, transfer, ok, confirmed }),
  });
  state.observe({ kind: 'transferStarted', node, transfer });
  write();
}

function refuse(): never {
  throw new AssertionFailed('transfers use byte streams only');
}

/** Confirms with one byte when everything has arrived; throws at the first wrong byte. */
function receive(opening: Uint8Array, stream: ByteStream): ByteStreamEvents {
  const sizeBytes = Number(new TextDecoder().decode(opening));
  let seenBytes = 0;
  const confirm = (): void => {
    if (stream.write(Uint8Array.of(1))) stream.end();
  };
  return {
    chunk: (bytes) => {
      for (let at = seenBytes % period, i = 0; i < bytes.length; at++, i++) {
        if (bytes[i] !== table[at]) throw new AssertionFailed(`byte ${seenBytes + i} is wrong`);
      }
      seenBytes += bytes.length;
      if (seenBytes >= sizeBytes) confirm();
    },
    writable: confirm,
    ended: () => undefined,
  };
}

const period = 251;
const table = Uint8Array.from({ length: chunkBytes + period }, (_, at) => at % period);

function pattern(fromByte: number, toByte: number): Uint8Array {
  return table.slice(fromByte % period, (fromByte % period) + toByte - fromByte);
}
