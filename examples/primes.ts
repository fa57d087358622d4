// primes.ts: how many primes does each thousand of the first 20 million numbers have?
import { workflow } from 'remuster';

export default workflow('primes', {
  cores: 4,
  items: 20_000,
  each: (share) => Array.from({ length: 1_000 }, (_, i) => share * 1_000 + i).filter(isPrime).length,
});

function isPrime(n: number): boolean {
  for (let by = 2; by * by <= n; by++) if (n % by === 0) return false;
  return n > 1;
}
