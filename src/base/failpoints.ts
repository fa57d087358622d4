/**
 * Named points where the simulator may force an unlikely but legal outcome. In production none fires. Never
 * ambient state: the function is passed with the ports, so two simulated worlds in one process stay independent.
 *
 * Names are declared here, so that a simulation run can report those that never fired.
 */

export const failpointTable = {
  'notify-queue-full': 'Streams.notify returns false, as if the queue to that peer were full.',
  'request-queue-full': 'Streams.request ends with CAPACITY, as if the queue to that peer were full.',
  'stream-no-credit':
    'ByteStream.write returns false, as if no credit were left; the stream becomes writable soon after.',
  'store-full-once': 'Store.write ends with STORE_FULL; the same write may succeed at once.',
} as const satisfies Readonly<Record<string, string>>;

export type FailpointName = keyof typeof failpointTable;

export const failpointNames = Object.keys(failpointTable) as readonly FailpointName[];

export type Failpoints = (label: FailpointName) => boolean;

/** For production: no failpoint fires. */
export const noFailpoints: Failpoints = () => false;
