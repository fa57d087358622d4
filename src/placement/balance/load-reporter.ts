/**
 * Measures the load of a node every few seconds and writes it to the registry after a significant change and under each
 * new registration lease. One write at a time.
 */
import type { Outcome } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { LeaseId, Registry, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type LoadReport, isSignificantChange, encodeLoadReport } from '../state/load-report.ts';

export type LoadReporterInput =
  /** Without a lease the report is not written. */
  | { readonly kind: 'measured'; readonly report: LoadReport; readonly lease: LeaseId | undefined }
  | { readonly kind: 'written'; readonly outcome: Outcome<TransactionResult> };

export type LoadReporterEffect = { readonly kind: 'write'; readonly transaction: RegistryTransaction };

type WrittenReport = { readonly report: LoadReport; readonly lease: LeaseId };

export class LoadReporter {
  readonly #key: string;
  #written: WrittenReport | undefined;
  #writing: WrittenReport | undefined;

  constructor(self: NodeId) {
    this.#key = clusterKey({ kind: 'load', node: self });
  }

  step(_nowMs: number, input: LoadReporterInput): readonly LoadReporterEffect[] {
    if (input.kind === 'measured') return this.#onMeasured(input.report, input.lease);
    // After an error the written report is unknown: the next measurement is written.
    this.#written = input.outcome.ok ? this.#writing : undefined;
    this.#writing = undefined;
    return [];
  }

  #onMeasured(report: LoadReport, lease: LeaseId | undefined): readonly LoadReporterEffect[] {
    if (lease === undefined || this.#writing !== undefined) return [];
    const written = this.#written;
    if (written?.lease === lease && !isSignificantChange(written.report, report)) return [];
    this.#writing = { report, lease };
    const put = { kind: 'put' as const, key: this.#key, value: encodeLoadReport(report), lease };
    return [{ kind: 'write', transaction: { compare: [], then: [put], otherwise: [] } }];
  }
}

type LoadReporterPorts = {
  readonly registry: Pick<Registry, 'transact'>;
  readonly clock: Clock;
  readonly measure: () => LoadReport;
  /** The lease of the registration. */
  readonly lease: () => LeaseId | undefined;
};

const loadReportIntervalMs = 5_000;

/** Measures at once and then in each interval, until it is cancelled. */
export function startLoadReporter(self: NodeId, ports: LoadReporterPorts, intervalMs = loadReportIntervalMs): Cancel {
  const { registry, clock } = ports;
  const machine = new LoadReporter(self);
  let cancel: Cancel = () => {};
  const feed = (input: LoadReporterInput): void => {
    for (const { transaction } of machine.step(clock.nowMs(), input))
      registry.transact(transaction, { timeoutMs: intervalMs }, (outcome) => feed({ kind: 'written', outcome }));
  };
  const measure = (): void => {
    cancel = clock.schedule(intervalMs, measure);
    feed({ kind: 'measured', report: ports.measure(), lease: ports.lease() });
  };
  measure();
  return () => cancel();
}
