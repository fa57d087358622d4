/** How incidents and messages name a unit, what happens to it, and what it counts. Pure functions. */
import type { ManagedUnit } from '../model/managed-job.ts';

export function unitText({ number, phase, workflow }: ManagedUnit): string {
  const isPart = phase === 'work' || phase === 'whole';
  return `${isPart ? `unit ${number}` : `the ${phase}`} of ${workflow.facts.name}`;
}

export function retryText({ workflow }: ManagedUnit, counted: number): string {
  return counted > workflow.facts.maxRetries ? 'is not retried' : 'is retried on another worker';
}

export function itemsText({ workflow }: ManagedUnit): string {
  return workflow.facts.load === undefined ? 'items' : 'iterations';
}
