/**
 * Public entry point `remuster/client`: opens a real transport in the role `client` and a session on it. Composition
 * root; all else is in session.ts.
 */
import { env } from 'node:process';
import { nodeIdBytes, nodeIdFrom } from '../base/ids.ts';
import { Random } from '../base/random.ts';
import { systemClock } from '../io/system/clock.ts';
import { entropyBytes, entropyText } from '../io/system/entropy.ts';
import { entryUrl } from '../io/system/entry-url.ts';
import { isLoopback } from '../io/transport/loopback.ts';
import { openTransport } from '../io/transport/transport.ts';
import { openWorkflowFile } from '../io/bundle/workflow-file.ts';
import { jobLimits } from '../jobs/limits.ts';
import { type ClusterSession, openSession } from './session.ts';
import { clientSettings, type ConnectOptions } from './options.ts';

export type { ClusterMember, ClusterSession, PoolWanted } from './session.ts';
export type { ItemResult, Job } from './job.ts';
export { type JobFailure, isJobFailure } from './job-failure.ts';
export type { JobsListed } from './session-jobs.ts';
export type { ConnectOptions } from './options.ts';
export type { PreparedJob, SubmitOptions } from './submission.ts';

/** Workflow code imports this copy of the package. */
const packageEntries = {
  remuster: entryUrl(import.meta.url, '../index').href,
  'remuster/client': entryUrl(import.meta.url, 'index').href,
};

/** Connects to a cluster: resolves after the first reply of a node, or throws a coded error. */
export async function connect(options: ConnectOptions): Promise<ClusterSession> {
  const { waitServerMs, ...settings } = clientSettings(options, env);
  const host = settings.addresses.every((address) => isLoopback(address.host)) ? '127.0.0.1' : '0.0.0.0';
  const id = nodeIdFrom(entropyBytes(nodeIdBytes));
  const clock = systemClock();
  const transport = await openTransport({
    ...{ cluster: options.cluster ?? 'remuster', clock, log: () => {}, bind: { host, port: 0 } },
    self: { id, name: `client-${id.slice(0, 8)}`, host, port: 0, generation: 1, roles: ['client'], dc: 'client' },
    secrets: { current: options.secret, previous: [] },
    // A client serves no requests: the role check refuses all of them.
    admit: () => 'role',
  });
  const { streams } = transport;
  const session = openSession({
    ...settings,
    streams,
    clock,
    random: new Random(entropyText(16)),
    name: `client-${id}`,
    bundler: (file) => openWorkflowFile(file, packageEntries, jobLimits.bundleBytesMax),
  });
  const close = (): Promise<void> => session.close().then(() => transport.close());
  try {
    await session.waitUntilConnected(waitServerMs);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    members: () => session.members(),
    echo: (payload) => session.echo(payload),
    pool: (definition, name) => session.pool(definition, name),
    createPool: (definition, name, wanted) => session.createPool(definition, name, wanted),
    deletePool: (name) => session.deletePool(name),
    submit: (what, wanted) => session.submit(what, wanted),
    run: (what, options) => session.run(what, options),
    prepare: (file) => session.prepare(file),
    job: (id) => session.job(id),
    jobs: (wanted) => session.jobs(wanted),
    close,
  };
}
