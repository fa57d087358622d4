/** The job list, and one job with its figures, charts and incidents. By default the newest job is shown. */
import { useEffect, useState } from 'preact/hooks';
import { type ConsoleFailures, type ConsoleJob, type ConsoleProgress, fetchJson, followEvents } from './api.ts';
import { Chart } from './chart.tsx';

const pointsMax = 600;
const messagesMax = 10;

export function Jobs({ jobs }: { readonly jobs: readonly ConsoleJob[] }) {
  const [selected, select] = useState<string>();
  const shown = selected ?? jobs[0]?.jobId;
  return (
    <section id="jobs">
      <h2>Jobs</h2>
      {jobs.length === 0 ? <p class="quiet">No jobs yet. Submit one: remuster run FILE</p> : null}
      {shown === undefined ? null : <Job key={shown} jobId={shown} />}
      {jobs.length === 0 ? null : (
        <table>
          <thead>
            <tr>
              <th>Job</th>
              <th>Name</th>
              <th>Status</th>
              <th class="number">Completed</th>
              <th class="number">Failed</th>
            </tr>
          </thead>
          <tbody>
            {jobs.slice(0, 20).map((job) => (
              <tr key={job.jobId}>
                <td>
                  <button type="button" onClick={() => select(job.jobId)}>
                    {job.jobId}
                  </button>
                </td>
                <td>{job.name}</td>
                <td class={job.status}>{job.status}</td>
                <td class="number">{job.completed.toLocaleString('en')}</td>
                <td class="number">{job.failed.toLocaleString('en')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Job({ jobId }: { readonly jobId: string }) {
  const [points, setPoints] = useState<readonly ConsoleProgress[]>([]);
  useEffect(() => {
    const closed = new AbortController();
    void followEvents(`/v1/jobs/${encodeURIComponent(jobId)}/progress`, closed.signal, (data) => {
      const point = data as ConsoleProgress;
      setPoints((before) => [...before, point].slice(-pointsMax));
      if (isFinished(point.status)) closed.abort();
    });
    return () => closed.abort();
  }, [jobId]);
  const last = points.at(-1);
  if (last === undefined) return <p class="quiet">Waiting for the progress of {jobId} ...</p>;
  return (
    <div id="job" data-status={last.status}>
      <Metrics last={last} />
      <Charts points={points} />
      <Incidents last={last} />
      {isFinished(last.status) && last.failed > 0 ? <Failures jobId={jobId} /> : null}
    </div>
  );
}

function isFinished(status: string): boolean {
  return ['COMPLETED', 'PARTIAL', 'FAILED', 'CANCELLED', 'TIMEOUT'].includes(status);
}

/** A dash until something was measured. */
function latencyText(ms: number | undefined): string {
  return ms === undefined ? '-' : `${ms.toFixed(1)} ms`;
}

function Metrics({ last }: { readonly last: ConsoleProgress }) {
  const figures: readonly [string, string][] = [
    ['completed', last.completed.toLocaleString('en')],
    ['failed', last.failed.toLocaleString('en')],
    ['per second', Math.round(last.ratePerSecond).toLocaleString('en')],
    ['p50', latencyText(last.latencyMs?.p50)],
    ['p99', latencyText(last.latencyMs?.p99)],
    ['elapsed', `${(last.elapsedMs / 1_000).toFixed(1)} s`],
    ['workers', (last.workers ?? []).join(', ') || '-'],
  ];
  return (
    <div class="figures">
      <span>
        <b class={last.status}>{last.status}</b>
        <span class="quiet">{last.jobId}</span>
      </span>
      {figures.map(([label, value]) => (
        <span key={label}>
          <b>{value}</b>
          <span class="quiet">{label}</span>
        </span>
      ))}
    </div>
  );
}

function Charts({ points }: { readonly points: readonly ConsoleProgress[] }) {
  const seconds = points.map(({ elapsedMs }) => elapsedMs / 1_000);
  const rate = [{ label: 'per second', values: points.map(({ ratePerSecond }) => ratePerSecond), color: '#4c8dff' }];
  const latency = [
    { label: 'p50', values: points.map(({ latencyMs }) => latencyMs?.p50 ?? null), color: '#3fb27f' },
    { label: 'p95', values: points.map(({ latencyMs }) => latencyMs?.p95 ?? null), color: '#e0a030' },
    { label: 'p99', values: points.map(({ latencyMs }) => latencyMs?.p99 ?? null), color: '#e05d5d' },
  ];
  return (
    <div class="charts">
      <Chart title="Iterations per second" seconds={seconds} lines={rate} />
      <Chart title="Latency, ms" seconds={seconds} lines={latency} />
    </div>
  );
}

/** The failed items of a finished batch, by message. */
function Failures({ jobId }: { readonly jobId: string }) {
  const [view, setView] = useState<ConsoleFailures>({});
  useEffect(() => {
    fetchJson<ConsoleFailures>(`/v1/jobs/${encodeURIComponent(jobId)}/failures`).then(setView, () => undefined);
  }, [jobId]);
  return (
    <ul id="failures">
      {(view.failures ?? []).map(({ workflow, count, messages }) => (
        <li key={workflow}>
          {workflow}: {count.toLocaleString('en')} failed items; list them: remuster job failures {jobId}
          <ul>
            {messages.slice(0, messagesMax).map(({ message, at, count: times }) => (
              <li key={`${message} ${at}`}>
                <b>{times.toLocaleString('en')} x</b> {message} <span class="quiet">{at}</span>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}

function Incidents({ last }: { readonly last: ConsoleProgress }) {
  const incidents = last.incidents ?? [];
  if (incidents.length === 0) return null;
  return (
    <ul id="incidents">
      {incidents.map(({ time, node, effect }) => (
        <li key={`${time}${node}${effect}`}>
          <b>{node}</b> {effect}
        </li>
      ))}
    </ul>
  );
}
