/** Drives the load reporter: measures every few seconds and writes what it decides. */
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { LeaseId, Registry } from '../../base/registry.ts';
import type { LoadReport } from '../state/load-report.ts';
import { LoadReporter, type LoadReporterInput } from './load-reporter.ts';

export type LoadReporterPorts = {
  readonly registry: Pick<Registry, 'transact'>;
  readonly clock: Clock;
  readonly measure: () => LoadReport;
  /** That of the registration. */
  readonly lease: () => LeaseId | undefined;
};

const loadReportIntervalMs = 5_000;

/** Until it is cancelled. */
export function startLoadReporter(self: NodeId, ports: LoadReporterPorts, intervalMs = loadReportIntervalMs): Cancel {
  const { registry, clock } = ports;
  const machine = new LoadReporter(self);
  let cancel: Cancel = () => {};
  const feed = (input: LoadReporterInput): void => {
    for (const { transaction } of machine.step(clock.nowMs(), input))
      registry.transact(transaction, { timeoutMs: intervalMs }, (outcome) => feed({ kind: 'written', outcome }));
  };
  const look = (): void => {
    cancel = clock.schedule(intervalMs, look);
    feed({ kind: 'measured', report: ports.measure(), lease: ports.lease() });
  };
  look();
  return () => cancel();
}
