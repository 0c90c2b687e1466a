package main

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Locks are the locks of a bank, typed by what they lock.
//
//lockgen:locks wait=1m
type Locks interface {
	// Accounts locks several accounts, all or none, in the order of their keys: two transfers in opposite directions
	// cannot deadlock.
	//
	//lockgen:lock key=example-transfer:{ids...}
	Accounts(ids ...AccountID) lockrt.EntityMulti[AccountID]
}

// An AccountID names an account.
type AccountID string

// A bank moves money between accounts, which it keeps in a store.
type bank struct {
	store *store
	locks Locks
}

// transfer moves cents from one account to another.
func (b *bank) transfer(ctx context.Context, from, to AccountID, cents int64) error {
	return b.locks.Accounts(from, to).Do(ctx, func(ctx context.Context, held lockrt.HeldMulti[AccountID]) error {
		each := held.Each()
		if err := b.withdraw(ctx, each[0], cents); err != nil {
			return err
		}
		return b.deposit(context.WithoutCancel(ctx), each[1], cents) // the money is withdrawn: the deposit must not be cancelled
	})
}

// total counts the cents in several accounts while no transfer runs.
func (b *bank) total(ctx context.Context, ids ...AccountID) (cents int64, err error) {
	err = b.locks.Accounts(ids...).Do(ctx, func(ctx context.Context, held lockrt.HeldMulti[AccountID]) error {
		for _, account := range held.Each() {
			balance, err := b.store.balance(ctx, account.ID())
			if err != nil {
				return err
			}
			cents += balance
		}
		return nil
	})
	return cents, err
}

// withdraw requires the proof that the account is held: without one, or with that of another kind of thing, the call
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
