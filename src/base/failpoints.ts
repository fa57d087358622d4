/**
 * Named points where the simulator may force an unlikely but legal outcome. In production each answers no. Never
 * ambient state: the function is passed with the ports.
 *
 * The answer is a value that is passed along and never ambient state, so that two worlds in one process keep apart.
 * Labels are declared here, so that a campaign can name those that never fired.
 */

export const failpointTable = {
  'notify-queue-full': 'Streams.notify refuses, as if the queue to that peer were full.',
  'request-queue-full': 'Streams.request ends with CAPACITY, as if the queue to that peer were full.',
  'stream-no-credit': 'ByteStream.write refuses, as if no credit were left; it becomes writable soon after.',
  'store-full-once': 'Store.write ends with STORE_FULL; the same write may succeed at once.',
} as const satisfies Readonly<Record<string, string>>;

export type FailpointName = keyof typeof failpointTable;

export const failpointNames = Object.keys(failpointTable) as readonly FailpointName[];

export type Failpoints = (label: FailpointName) => boolean;

/** Real life. */
export const noFailpoints: Failpoints = () => false;
