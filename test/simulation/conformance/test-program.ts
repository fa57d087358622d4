/**
 * The program that Threads and Runners suites start; its data names the behaviour. Uses only its channel, so that a
 * simulated thread can run it in the same process.
 */
import type { ProgramEndpoint } from '../../../src/base/ports.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const behaviours: Readonly<Record<string, (channel: ProgramEndpoint) => void>> = {
  echo: (channel) => channel.receive((body) => channel.send(body)),

  /** Sends a hundred messages at once, then one more for each message it receives. */
  talk: (channel) => {
    for (let i = 0; i < 100; i++) channel.send(encoder.encode(String(i)));
    channel.receive((body) => channel.send(encoder.encode(`received ${decoder.decode(body)}`)));
  },

  /** Reuses its buffer, as a codec does. */
  reuse: (channel) => {
    const buffer = encoder.encode('first');
    channel.send(buffer);
    buffer.set(encoder.encode('XXXXX'));
  },

  clock: (channel) => {
    const startMs = channel.clock.nowMs();
    channel.clock.schedule(20, () => channel.send(encoder.encode(String(channel.clock.nowMs() - startMs >= 20))));
  },

  quiet: () => undefined,

  throw: (channel) => {
    channel.send(encoder.encode('last message'));
    throw new Error('broken at once');
  },

  throwLate: (channel) => {
    channel.clock.schedule(5, () => {
      channel.send(encoder.encode('last message'));
      throw new Error('broken later');
    });
  },

  throwOnMessage: (channel) =>
    channel.receive((body) => {
      throw new Error(`broken by ${decoder.decode(body)}`);
    }),
};

export function main(channel: ProgramEndpoint): void {
  const name = decoder.decode(channel.data);
  const behaviour = behaviours[name];
  if (behaviour === undefined) throw new Error(`no such behaviour: ${name}`);
  behaviour(channel);
}
