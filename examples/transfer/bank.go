package main

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Bank moves money between accounts.
//
//lockgen:service wait=1m
type Bank interface {
	// Transfer moves cents from one account to another. Both are locked, all or none, in the order of their keys: two
	// transfers in opposite directions do not wait for each other in a circle.
	//
	//lockgen:lock key=example-transfer:{from}
	//lockgen:lock key=example-transfer:{to}
	Transfer(ctx context.Context, from, to AccountID, cents int64) error

	// Total counts the cents in several accounts while nobody moves them.
	//
	//lockgen:lock key=example-transfer:{ids...}
	Total(ctx context.Context, ids ...AccountID) (int64, error)
}

// Locks are the same locks by hand, typed by what they lock.
//
//lockgen:locks wait=0
type Locks interface {
	// Account locks one account.
	//
	//lockgen:lock key=example-transfer:{id}
	Account(id AccountID) lockrt.EntityMutex[AccountID]
}

// An AccountID names an account.
type AccountID string

// bank keeps its accounts in a store. By itself it is safe for one caller at a time.
type bank struct {
	store *store
	locks Locks
}

func (b *bank) Transfer(ctx context.Context, from, to AccountID, cents int64) error {
	// The locks are held, so Do enters again, without a word to Redis. What it passes is the proof.
	return b.locks.Account(from).Do(ctx, func(ctx context.Context, payer lockrt.Held[AccountID]) error {
		return b.locks.Account(to).Do(ctx, func(ctx context.Context, payee lockrt.Held[AccountID]) error {
			if err := b.withdraw(ctx, payer, cents); err != nil {
				return err
			}
			return b.deposit(context.WithoutCancel(ctx), payee, cents) // the money is out: it has to go somewhere
		})
	})
}

// withdraw asks for the proof that the account is held: without one, or with that of another kind of thing, the call
// does not compile.
func (b *bank) withdraw(ctx context.Context, account lockrt.Held[AccountID], cents int64) error {
	balance, err := b.store.balance(ctx, account.ID())
	if err != nil {
		return err
	}
	if balance < cents {
		return fmt.Errorf("account %s has %d cents: %w", account.ID(), balance, errPoor)
	}
	return b.store.save(ctx, account.ID(), balance-cents)
}

func (b *bank) deposit(ctx context.Context, account lockrt.Held[AccountID], cents int64) error {
	balance, err := b.store.balance(ctx, account.ID())
	if err != nil {
		return err
	}
	return b.store.save(ctx, account.ID(), balance+cents)
}

func (b *bank) Total(ctx context.Context, ids ...AccountID) (cents int64, err error) {
	for _, id := range ids {
		balance, err := b.store.balance(ctx, id)
		if err != nil {
			return 0, err
		}
		cents += balance
	}
	return cents, nil
}
