/** Conformance of Runners: all rules of Threads, plus the lifetime limit. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RunnerLimits, Runners } from '../../../src/base/ports.ts';
import { type OpenHarness, type TestWorld, suiteOptions, utf8 } from './harness.ts';
import { type StartProgram, describeProgramPort, startTestProgram } from './threads.ts';

export type RunnersHarness = TestWorld & { readonly runners: Runners };

const highLimits: RunnerLimits = { memoryBytesMax: 512 * 2 ** 20, lifetimeMsMax: 50_000, network: false };

export function describeRunners(name: string, open: OpenHarness<RunnersHarness>): void {
  describe(`${name} is Runners`, suiteOptions, () => {
    describeProgramPort(async (t) => {
      const { runners, settle } = await open(t);
      return { settle, start: (spec, events) => runners.start({ ...spec, limits: highLimits }, events) };
    });
    describeLifetime(open);
  });
}

function describeLifetime(open: OpenHarness<RunnersHarness>): void {
  it('ends a program that outlives its limit, with that reason', async (t) => {
    const { runners, settle } = await open(t);
    const limits: RunnerLimits = { ...highLimits, lifetimeMsMax: 50 };
    const start: StartProgram = (spec, events) => runners.start({ ...spec, limits }, events);
    const { running, exited } = startTestProgram({ settle, start }, 'quiet');
    assert.match(await settle(exited), /lifetime/);
    running.send(utf8.encode('too late'));
    running.kill();
  });
}
