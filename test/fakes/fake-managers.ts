/** Fake managers behind all nodes of a fake cluster: they keep jobs by idempotency key, and uploaded bundles. */
import assert from 'node:assert/strict';

import { type Done, failure, success } from '../../src/base/errors.ts';
import type { JobRequest } from '../../src/jobs/job-types.ts';
import { encodeMessage, type Message } from '../../src/messages/catalogue.ts';
import { FakeCluster } from './fake-cluster.ts';

type JobRequestMessage = Message & { kind: 'jobRequest' };

export class FakeManagers {
  readonly cluster: FakeCluster;
  readonly requests: { readonly node: string; readonly verb: string; readonly args: Record<string, unknown> }[] = [];
  readonly jobs = new Map<string, JobRequest>();
  stored = 0;
  bundles = new Set<string>();
  /** Takes a request over instead of the reply. */
  injectFault: (node: string, request: JobRequestMessage, reply: Done<Uint8Array>) => 'handled' | undefined = () =>
    undefined;
  /** The result of a verb for its arguments. */
  results: Record<string, (args: Record<string, unknown>) => unknown> = {};

  constructor(nodes: number) {
    this.cluster = new FakeCluster(nodes);
    this.cluster.onRequest = (node, message, reply) => {
      if (message.kind === 'storeBundle') {
        this.stored += 1;
        this.bundles.add(message.sha256);
        return reply(success(encodeMessage({ kind: 'storeBundleReply', sha256: message.sha256 })));
      }
      assert.equal(message.kind, 'jobRequest');
      this.#onJobRequest(node, message, reply);
    };
  }

  #onJobRequest(node: string, request: JobRequestMessage, reply: Done<Uint8Array>): void {
    const args = JSON.parse(request.args) as Record<string, unknown>;
    this.requests.push({ node, verb: request.verb, args });
    if (this.injectFault(node, request, reply) !== undefined) return;
    reply(this.execute(request));
  }

  execute(message: JobRequestMessage): ReturnType<typeof success<Uint8Array>> | ReturnType<typeof failure> {
    const args = JSON.parse(message.args) as Record<string, unknown>;
    if (message.verb !== 'submit' || (this.results['submit'] !== undefined && (message.waitMs ?? 0) > 0)) {
      const resultOf = this.results[message.verb] ?? assert.fail(`the test has no result for ${message.verb}`);
      return success(encodeMessage({ kind: 'jobReply', answer: JSON.stringify(resultOf(args)) }));
    }
    const request = args as unknown as JobRequest;
    if (!this.bundles.has(request.bundle)) return failure('UNKNOWN_BUNDLE');
    const key = message.idempotencyKey ?? assert.fail('a submission without a key');
    const isNew = !this.jobs.has(key);
    this.jobs.set(key, request);
    const jobId = `job-${[...this.jobs.keys()].indexOf(key) + 1}`;
    return success(encodeMessage({ kind: 'jobReply', answer: JSON.stringify({ jobId, status: 'QUEUED', isNew }) }));
  }
}
